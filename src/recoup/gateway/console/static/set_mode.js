// The mode of a workflow: what the chosen one means, and for how long.
import { ASKED, openAsk } from "./actions.js";
import { post } from "./asking.js";
import { say } from "./said.js";

const form = document.getElementById("set-mode");
const means = document.getElementById("mode-means");
const chosen = () => form.mode.selectedOptions[0];

form.mode.addEventListener("change", () => { means.textContent = chosen().dataset.means; });
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  if (button.getAttribute("aria-disabled") === "true") { say(button.dataset.whyNot, "bad"); return; }
  const body = { mode: form.mode.value };
  if (form.for.value) body.forS = Number(form.for.value);
  const until = form.for.value ? `For ${form.for.selectedOptions[0].textContent}.` : lasting(body.mode);
  const given = { title: `Set ${body.mode}`, scope: `${form.dataset.name}: ${body.mode}. ${chosen().dataset.means}\n${until}`, danger: body.mode !== "running" };
  openAsk(given, (reason, key) => post(form.dataset.post, { ...body, reason }, key), (answer) => {
    say(answer?.approvalRef ? ASKED : `${form.dataset.name} is ${body.mode}.`, "good");
    window.htmx?.trigger(document.body, "recoup:live");
  });
});

function lasting(mode) {
  if (mode === "quarantined") return `For ${Math.round(Number(form.dataset.quarantineS) / 60)} minutes, as the policy says.`;
  return mode === "running" ? "From now on the rules go on as ever." : "Until somebody sets it again, or the rules end it.";
}
