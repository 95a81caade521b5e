// An order for a probe: on what, which of the closed list, and why. The id makes a second telling harmless.
import { ASKED, openAsk } from "./actions.js";
import { post } from "./asking.js";
import { say } from "./said.js";

const form = document.getElementById("order");
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  if (button.getAttribute("aria-disabled") === "true") { say(button.dataset.whyNot, "bad"); return; }
  if (!form.resource.value) { say("It has told of no resource yet.", "bad"); return; }
  const wanted = { resource: form.resource.value, action: form.action_.value };
  const option = form.action_.selectedOptions[0];
  const given = { title: `Order ${option.textContent}`, scope: `${wanted.resource} of probe ${form.dataset.probe}: ${option.dataset.means}`, danger: true };
  openAsk(given, (reason, key) => post(form.dataset.post, body(wanted, reason, key), key), (answer) => {
    if (answer?.approvalRef) say(ASKED, "good");
    else if (answer?.outcome === "refused") say(`Refused by ${answer.rule}: ${answer.reason}`, "bad");
    else say(form.dataset.local === "yes" ? "Accepted." : "Ordered: the probe takes it when it asks next.", "good");
    window.htmx?.trigger(document.body, "recoup:live");
  });
});

function body(wanted, reason, key) {
  if (form.dataset.local === "yes") return { resourceId: wanted.resource, action: wanted.action, reason };
  return { probe_id: form.dataset.probe, command: { command_id: `console-${key}`, resource_id: wanted.resource, action: wanted.action, reason } };
}
