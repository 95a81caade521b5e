// Times in the reader's own zone, and how long ago they were.
const STEPS = [[60, "second"], [3600, "minute"], [86400, "hour"], [86400 * 14, "day"]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function startMoments() {
  tellAll();
  setInterval(tellAll, 10000);
  document.addEventListener("htmx:afterSettle", tellAll);
}

export function tellAll() {
  for (const place of document.querySelectorAll("time[datetime]")) tell(place);
}

function tell(place) {
  const at = new Date(place.dateTime);
  if (Number.isNaN(at.valueOf())) return;
  place.title = whole.format(at);
  if (place.dataset.exact === undefined) place.textContent = spoken((at - Date.now()) / 1000, at);
}

function spoken(seconds, at) {
  const far = Math.abs(seconds);
  let unit = 1;
  for (const [limit, name] of STEPS) {
    if (far < limit) return relative.format(Math.trunc(seconds / unit), name);
    unit = limit === 86400 * 14 ? unit : limit;
  }
  return at.toLocaleDateString();
}
