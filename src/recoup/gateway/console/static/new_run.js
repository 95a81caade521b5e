// A plan is submitted, or everything that is wrong with it is said, with its lines.
import { ASKED, element } from "./actions.js";
import { newKey, post } from "./asking.js";
import { say } from "./said.js";

const form = document.getElementById("submit-run");
const problems = document.getElementById("problems");
let key = newKey();

form.addEventListener("input", () => { key = newKey(); });
form.addEventListener("change", () => {
  if (!form.from) return;
  for (const part of form.querySelectorAll("[data-from]")) part.hidden = part.dataset.from !== form.from.value;
});
form.querySelector("[data-command]").addEventListener("click", async () => {
  const text = command();
  try { await navigator.clipboard.writeText(text); say("Copied."); } catch { say("The command: " + text); }
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (form.dataset.may !== "yes") { say("Your role may only look.", "bad"); return; }
  problems.replaceChildren();
  const go = form.querySelector("[type=submit]");
  go.disabled = true;
  try {
    const made = await post("/api/runs", body(), key);
    if (made.approvalRef) say(ASKED, "good");
    else location.assign(`/runs/${encodeURIComponent(made.runId)}`);
  } catch (error) {
    tell(error);
    go.disabled = false;
  }
});

const isFile = () => !form.from || form.from.value === "file";

function inputs() {
  const given = {};
  for (const line of form.inputs.value.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf("=");
    if (at < 1) throw Object.assign(new Error(`This is no NAME=VALUE: ${line.slice(0, 60)}`), { problems: [], hint: "" });
    given[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return given;
}

function body() {
  const made = { inputs: inputs(), queue: form.queue.value.trim() || "default", priority: Number(form.priority.value) || 0 };
  if (isFile()) made.planPath = form.planPath.value.trim();
  else made.plan = form.plan.value;
  if (form.reason.value.trim()) made.reason = form.reason.value.trim();
  return made;
}

function command() {
  const quote = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  const words = ["recoup", "submit", isFile() && form.planPath.value.trim() || "plan.yaml", "--queue", form.queue.value.trim() || "default"];
  for (const line of form.inputs.value.split("\n").filter((one) => one.includes("="))) words.push("--input", line.trim());
  if (Number(form.priority.value)) words.push("--priority", form.priority.value);
  return words.map(quote).join(" ");
}

function tell(error) {
  problems.append(element("p", { className: "wrong" }, error.message + (error.hint ? " " + error.hint : "")));
  if (error.problems?.length) {
    const list = element("ol");
    for (const one of error.problems) list.append(problem(one));
    problems.append(list);
  }
  problems.focus();
}

function problem(one) {
  const line = element("li");
  if (one.line && form.plan && !isFile()) {
    const jump = element("button", { type: "button", className: "quiet" }, `line ${one.line}`);
    jump.addEventListener("click", () => select(one.line));
    line.append(jump, " ");
  } else if (one.line) line.append(`line ${one.line}: `);
  line.append(element("code", {}, one.where), ` ${one.message}`);
  return line;
}

function select(number) {
  const lines = form.plan.value.split("\n");
  const begin = lines.slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  form.plan.focus();
  form.plan.setSelectionRange(begin, begin + (lines[number - 1] || "").length);
}
