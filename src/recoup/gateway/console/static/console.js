// Every page: what is live, what can be done, what is remembered. Pages bring modules of their own for the rest.
import { startActions } from "./actions.js";
import { startLive } from "./live.js";
import { startMoments } from "./moments.js";
import { startMorphing } from "./morphing.js";
import { say } from "./said.js";

startMoments();
startMorphing();
startActions();
startLive();
startTheme();
startMenu();
startKeys();
startCopies();
startSignOut();

function startTheme() {
  const button = document.querySelector("[data-theme-button]");
  if (!button) return;
  const words = button.querySelector("[data-theme-words]");
  const order = ["system", "light", "dark"];
  const current = () => document.documentElement.dataset.theme || "system";
  words.textContent = current();
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(current()) + 1) % order.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem("recoup-theme", next); } catch { /* only for this page, then */ }
    words.textContent = next;
  });
}

function startMenu() {
  const button = document.querySelector(".menu-button");
  const menu = document.getElementById("menu");
  if (!button || !menu) return;
  const set = (open) => {
    button.setAttribute("aria-expanded", String(open));
    menu.classList.toggle("open", open);
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") set(false); });
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    document.getElementById("find")?.focus();
  });
}

function startCopies() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      say("Copied.");
    } catch {
      say("This browser does not let pages copy here. The text: " + button.dataset.copy);
    }
  });
}

function startSignOut() {
  document.querySelector("[data-sign-out]")?.addEventListener("click", async () => {
    const [{ post }, { dropCsrf }] = await Promise.all([import("./asking.js"), import("./csrf.js")]);
    await post("/api/session/end", {});
    dropCsrf();
    location.assign("/sign-in");
  });
}
