// Another policy, tried on recorded runs. What comes back is put into the page as text alone.
import { element } from "./actions.js";
import { post } from "./asking.js";

const form = document.getElementById("what-if");
const place = document.getElementById("what-if-answer");
const VERDICTS = { same: "same", other_wait: "other wait", stops_earlier: "stops earlier", goes_on: "goes on", unknown: "unknown" };

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  place.replaceChildren(element("p", { className: "soft" }, "Deciding again…"));
  try {
    const body = { policy: form.policy.value, limit: Number(form.limit.value) };
    if (form.workflow.value) body.workflow = form.workflow.value;
    place.replaceChildren(...told(await post("/api/policy/what-if", body)));
  } catch (error) {
    place.replaceChildren(...refused(error));
  }
  button.disabled = false;
});

function refused(error) {
  const list = element("ul", { className: "problems" });
  for (const one of error.problems || []) list.append(element("li", {}, `${one.line ? `line ${one.line}: ` : ""}${one.where ? `${one.where}: ` : ""}${one.message}`));
  return [element("p", { className: "note bad" }, error.message), list];
}

function told(found) {
  const decisions = found.workflows.reduce((sum, one) => sum + one.decisions, 0);
  const looked = `${found.runs} runs and ${decisions} decisions were looked at.`;
  const parts = [element("p", { className: found.same ? "note fine" : "note" }, (found.same ? "Nothing would have been decided otherwise. " : "Some decisions would have been different. ") + looked)];
  if (!found.complete) parts.push(element("p", { className: "note bad" }, "Time was up before all of them were looked at: choose fewer runs, or one workflow."));
  if (!found.same) parts.push(table(["Workflow", "Runs", ...Object.values(VERDICTS)], found.workflows.map((one) => [one.workflow, one.runs, ...Object.keys(VERDICTS).map((key) => one.verdicts[key] ?? 0)])));
  if (found.different.length) parts.push(table(["Run", "Step", "Decided", "Would have been", "Consequence"], found.different.flatMap(lines), true));
  for (const one of found.modes) {
    for (const change of one.wouldHaveBegun) parts.push(element("p", {}, `${one.workflow} would have been ${change.mode}: ${change.reason}`));
    for (const change of one.wouldNotHaveBegun) parts.push(element("p", {}, `${one.workflow} would not have been ${change.mode}: ${change.reason}`));
  }
  if (found.unseenKeys.length) parts.push(element("p", { className: "soft" }, `Not to be seen in what was recorded: ${found.unseenKeys.join(", ")}`));
  return parts;
}

function lines(run) {
  return run.differences.map((one) => [run.runId, one.stepId ? `${one.stepId}, attempt ${one.attempt ?? "?"}` : "—", one.recorded, one.instead, consequence(one)]);
}

function consequence(one) {
  if (one.kind === "other_wait") return (one.secondsSaved ?? 0) >= 0 ? `saves ${(one.secondsSaved ?? 0).toFixed(1)} s` : `waits ${(-one.secondsSaved).toFixed(1)} s longer`;
  if (one.kind === "stops_earlier") return `saves ${attempts(one.attemptsSaved ?? 0)}${one.recoveryLost ? ", and loses the recovery that followed" : ""}`;
  return one.moreAttemptsMax ? `unknown from here: at most ${attempts(one.moreAttemptsMax)} more` : "unknown from here";
}

function attempts(count) {
  return count === 1 ? "1 attempt" : `${count} attempts`;
}

function table(heads, rows, links = false) {
  const made = element("table");
  made.append(element("caption", {}, links ? "Decisions that would have been different" : "Runs by what would have become of them"));
  const head = element("tr");
  for (const words of heads) head.append(element("th", { scope: "col" }, words));
  made.append(element("thead"));
  made.tHead.append(head);
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((value, at) => {
      const cell = element("td");
      const words = element("bdi", {}, String(value));
      if (links && at === 0) {
        const link = element("a", { href: `/runs/${encodeURIComponent(value)}`, className: "code" });
        link.append(words);
        cell.append(link);
      } else cell.append(words);
      line.append(cell);
    });
    body.append(line);
  }
  made.append(body);
  const scroll = element("div", { className: "scroll", tabIndex: 0 });
  scroll.append(made);
  return scroll;
}
