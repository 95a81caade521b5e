// An order for a probe: on what, which of the closed list, and why.
import { ASKED, openAsk } from "./actions.js";
import { post } from "./asking.js";
import { say } from "./said.js";

const form = document.getElementById("order");
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  if (button.getAttribute("aria-disabled") === "true") { say(button.dataset.whyNot, "bad"); return; }
  if (!form.resource.value) { say("It has told of no resource yet.", "bad"); return; }
  const wanted = { resourceId: form.resource.value, action: form.action_.value };
  const option = form.action_.selectedOptions[0];
  const given = { title: `Order ${option.textContent}`, scope: `${wanted.resourceId} of probe ${form.dataset.probe}: ${option.dataset.means}`, danger: true };
  openAsk(given, (reason, key) => post(form.dataset.post, { ...wanted, reason }, key), (answer) => {
    if (answer?.approvalRef) say(ASKED, "good");
    else if (answer?.outcome === "refused") say(`Refused by ${answer.rule}: ${answer.reason}`, "bad");
    else say(answer?.outcome !== "ordered" ? "Accepted." : "Ordered: the probe takes it when it asks next.", "good");
    window.htmx?.trigger(document.body, "recoup:live");
  });
});
