// Runs that are selected, and what is done with all of them at once. The selection outlives every refresh of the list.
import { element, openAsk } from "./actions.js";
import { post } from "./asking.js";
import { say } from "./said.js";

const BULK = "/api/runs/bulk";
const selected = new Map();

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-select]")) keep(event.target);
  if (event.target.matches("[data-select-all]")) for (const box of boxes()) { box.checked = event.target.checked; keep(box); }
  show();
});
document.addEventListener("htmx:afterSettle", show);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-bulk-act]");
  if (button) act(button);
});
show();

function boxes() {
  return [...document.querySelectorAll("[data-select]")];
}

function keep(box) {
  if (box.checked) selected.set(box.value, { ...box.dataset });
  else selected.delete(box.value);
}

function show() {
  for (const box of boxes()) {
    box.checked = selected.has(box.value);
    if (box.checked) selected.set(box.value, { ...box.dataset });
  }
  const all = document.querySelector("[data-select-all]");
  const shown = boxes();
  all.checked = shown.length > 0 && shown.every((box) => box.checked);
  all.indeterminate = !all.checked && shown.some((box) => box.checked);
  document.querySelector("[data-bulk-count]").textContent = selected.size ? `${selected.size} selected` : "Nothing selected";
  for (const button of document.querySelectorAll("[data-bulk-act]")) {
    const role = document.querySelector('meta[name="may-change"]').content === "yes";
    const able = able_(button.dataset.bulkAct).length;
    const why = !role ? "Your role may only look." : !selected.size ? "Select runs first." : !able ? `None of these can be ${word(button.dataset.bulkAct)}.` : "";
    button.setAttribute("aria-disabled", String(Boolean(why)));
    button.dataset.whyNot = why;
    button.title = why;
  }
}

const word = (action) => action === "retry" ? "retried: only runs that have ended can" : "cancelled: they have ended";

function able_(action) {
  const key = action === "retry" ? "canRetry" : "canCancel";
  return [...selected].filter(([, about]) => about[key] === "yes").map(([id]) => id);
}

function act(button) {
  if (button.getAttribute("aria-disabled") === "true") { say(button.dataset.whyNot, "bad"); return; }
  const action = button.dataset.bulkAct;
  const ids = able_(action);
  const left = selected.size - ids.length;
  const noun = ids.length === 1 ? "run" : "runs";
  const scope = (action === "retry"
    ? `${ids.length} ${noun} once more: a new run for each of these, linked to it, that reuses what is proven.`
    : `${ids.length} ${noun} cancelled: attempts under way are ended. This cannot be taken back.`)
    + (left ? ` The other ${left} selected cannot be, and are left as they are.` : "");
  const list = ids.map((id) => `${id} · ${selected.get(id).workflow} · ${selected.get(id).status.replace("_", " ")}`);
  const title = action === "retry" ? `Retry ${ids.length} ${noun}` : `Cancel ${ids.length} ${noun}`;
  openAsk({ title, scope, list, danger: action === "cancel" },
    (reason, key) => post(BULK, { action, runIds: ids, reason }, key), (answer) => told(answer));
}

// What became of each: {runId, outcome: done | sent | refused | failed, detail, newRunId}.
const TONES = { done: "good", sent: "warn" };

function told(answer) {
  const good = answer.items.filter((one) => one.outcome in TONES).length;
  document.querySelector("[data-bulk-results]").replaceChildren(...answer.items.map(line));
  document.getElementById("bulk-result").hidden = false;
  selected.clear();
  show();
  say(`${good} of ${answer.items.length} done.`, good === answer.items.length ? "good" : "bad");
  window.htmx?.trigger(document.body, "recoup:live");
}

function line(one) {
  const made = element("li");
  made.append(element("span", { className: `badge ${TONES[one.outcome] || "bad"}` }, one.outcome));
  const words = element("p");
  words.append(link(one.runId), ` ${one.detail || ""} `);
  if (one.newRunId) words.append("→ ", link(one.newRunId));
  made.append(words);
  return made;
}

const link = (id) => element("a", { className: "code", href: `/runs/${encodeURIComponent(id)}` }, id);
