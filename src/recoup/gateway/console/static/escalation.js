// Whom an escalation is given to: a name beside the reason.
import { element, openAsk } from "./actions.js";
import { post } from "./asking.js";
import { say } from "./said.js";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-assign]");
  if (!button) return;
  if (button.getAttribute("aria-disabled") === "true") { say(button.dataset.whyNot, "bad"); return; }
  const given = { title: "Assign", scope: "Others see whose it is. Nothing else changes." };
  openAsk(given, (reason, key) => post(button.dataset.post, { assignee: document.getElementById("assignee").value.trim(), reason }, key), () => {
    say("Assigned.", "good");
    window.htmx?.trigger(document.body, "recoup:live");
  });
  const reason = document.getElementById("reason");
  const label = element("label", { htmlFor: "assignee" }, "To whom?");
  const input = element("input", { id: "assignee", name: "assignee", required: true, maxLength: 200, autocomplete: "off" });
  reason.previousElementSibling.before(label, input);
  input.focus();
});
