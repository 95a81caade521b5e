// Buttons that change something. A dialog shows what exactly will be changed, asks why, and says what came of it.
import { newKey, post } from "./asking.js";
import { say } from "./said.js";

export const ASKED = "Asked for: somebody else must agree to it, under Escalations, Approvals.";

export function startActions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    event.preventDefault();
    if (button.getAttribute("aria-disabled") === "true") say(button.dataset.whyNot, "bad");
    else ask(button);
  });
}

function ask(button) {
  const given = { title: button.textContent.trim(), scope: button.dataset.scope, wantsReason: button.dataset.reason !== "no", danger: button.classList.contains("danger") };
  openAsk(given, (reason, key) => {
    const body = JSON.parse(button.dataset.body || "{}");
    if (given.wantsReason) body.reason = reason;
    return post(button.dataset.post, body, key);
  }, (answer) => {
    if (answer?.approvalRef && answer.state === "waiting") say(ASKED, "good");
    else if (answer?.items?.[0]?.outcome) sayOf(answer.items);
    else say(button.dataset.done || answer?.detail || `${given.title}: done.`, "good");
    document.dispatchEvent(new CustomEvent("recoup:acted", { detail: answer }));
    window.htmx?.trigger(document.body, "recoup:live");
  });
}

// What became of each of many.
export function sayOf(items) {
  const bad = items.filter((one) => one.outcome !== "done" && one.outcome !== "sent");
  const words = bad.length ? bad.map((one) => `${one.runId}: ${one.detail}`).slice(0, 3).join(" · ") : `Done: ${items.length}.`;
  say(bad.length < items.length && bad.length ? `${items.length - bad.length} of ${items.length} done. ${words}` : words, bad.length ? "bad" : "good");
}

// Also for pages with an act of their own: `send(reason, key)` does it, `done(answer)` goes on. `list` shows what is meant, line by line.
export function openAsk({ title, scope = "", list = [], wantsReason = true, danger = false, reasonLabel = "Why? It is recorded." }, send, done) {
  const box = document.getElementById("ask");
  box.replaceChildren(form(title, scope, list, wantsReason, danger, reasonLabel));
  const key = newKey();
  const made = box.querySelector("form");
  box.querySelector("[data-cancel]").addEventListener("click", () => box.close());
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    const go = made.querySelector("[type=submit]");
    const wrong = made.querySelector(".wrong");
    go.disabled = true;
    wrong.textContent = "";
    try {
      const answer = await send(made.reason?.value.trim() ?? "", key);
      box.close();
      done(answer);
    } catch (error) {
      wrong.textContent = error.message + (error.hint ? " " + error.hint : "");
      go.disabled = false;
    }
  });
  box.showModal();
  (made.reason || made.querySelector("[type=submit]")).focus();
}

function form(title, scope, list, wantsReason, danger, reasonLabel) {
  const made = element("form", { method: "dialog" });
  made.append(element("h2", { id: "ask-title" }, title));
  if (scope) made.append(element("p", { className: "scope" }, scope));
  if (list.length) {
    const lines = element("ul", { className: "scope-list", tabIndex: 0 });
    for (const line of list) lines.append(element("li", {}, line));
    made.append(lines);
  }
  if (wantsReason) {
    made.append(element("label", { htmlFor: "reason" }, reasonLabel));
    made.append(element("input", { id: "reason", name: "reason", required: true, maxLength: 1000, autocomplete: "off" }));
  }
  made.append(element("p", { className: "wrong", role: "alert" }));
  const foot = element("div", { className: "ask-foot" });
  foot.append(element("button", { type: "button", className: "quiet" }, "Not now"));
  foot.lastChild.dataset.cancel = "";
  foot.append(element("button", { type: "submit", className: danger ? "danger main" : "main" }, title));
  made.append(foot);
  return made;
}

export function element(name, properties = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "role") made.setAttribute("role", value);
    else made[key] = value;
  }
  if (text !== null) made.textContent = text;
  return made;
}
