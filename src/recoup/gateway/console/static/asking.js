// How pages ask the API: with the word that only they can read, and a key, so that nothing is done twice.
import { csrf, dropCsrf } from "./csrf.js";

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.detail || `the gateway answered ${status}`);
    this.status = status;
    this.hint = problem?.hint || "";
    this.problems = problem?.problems || [];
  }
}

export const newKey = () => crypto.randomUUID ? crypto.randomUUID() : [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");

export async function post(path, body, key = newKey()) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf(), "Idempotency-Key": key },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  return understood(answer);
}

export async function get(path) {
  return understood(await fetch(path, { credentials: "same-origin" }));
}

async function understood(answer) {
  const document_ = await answer.json().catch(() => null);
  if (answer.status === 401 || document_?.type === "urn:recoup:problem:csrf") {
    dropCsrf();
    location.assign("/sign-in?next=" + encodeURIComponent(location.pathname + location.search));
  }
  if (!answer.ok) throw new Refusal(answer.status, document_);
  return document_;
}
