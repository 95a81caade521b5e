// The page of one run: choices that lead elsewhere, and a new run that is gone to at once.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-go]")) event.target.form.requestSubmit();
});
document.addEventListener("recoup:acted", (event) => {
  const made = event.detail;
  if (made?.runId && made.queue !== undefined) location.assign(`/runs/${encodeURIComponent(made.runId)}`);
});
