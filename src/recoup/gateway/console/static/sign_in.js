// A token becomes a cookie that no script can read, and a word that no other origin can. Who has both already, and came
// from elsewhere, goes on at once.
import { csrf, keepCsrf } from "./csrf.js";

const door = document.getElementById("door");
const next = door.dataset.next;

if (csrf()) fetch("/api/me", { credentials: "same-origin" }).then((answer) => { if (answer.ok) location.replace(next); }).catch(() => {});

door.addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = document.getElementById("wrong");
  wrong.textContent = "";
  try {
    const answer = await fetch("/api/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: door.token.value.trim() }),
      credentials: "same-origin",
    });
    if (answer.ok) {
      keepCsrf((await answer.json()).csrf);
      location.replace(next);
      return;
    }
    const problem = await answer.json();
    wrong.textContent = `${problem.detail}. ${problem.hint}`;
    door.token.select();
  } catch {
    wrong.textContent = "The gateway does not answer. Does recoup serve still run?";
  }
});
