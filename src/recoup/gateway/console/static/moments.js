// Times in the reader's own zone, which is named once, and how long ago they were. In a list of events that is the clock:
// its order and its gaps are what is looked for.
const RECENT_S = 60;
const STEPS = [[60, "second"], [3600, "minute"], [86400, "hour"], [86400 * 14, "day"]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export function startMoments() {
  const zone = document.querySelector("[data-zone]");
  if (zone) zone.textContent = `Times: ${zoneName()}` + (new Date().getTimezoneOffset() ? "; charts: UTC" : "");
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
  place.title = `${whole.format(at)} (${place.dateTime})`;
  if (place.dataset.exact !== undefined) return;
  const seconds = (at - Date.now()) / 1000;
  const byClock = seconds < -RECENT_S && place.closest("[data-clock]");
  place.textContent = byClock ? onClock(at) : spoken(seconds, at);
}

function onClock(at) {
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

function zoneName() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" }).formatToParts(new Date());
  return `${timeZone}, ${parts.find((part) => part.type === "timeZoneName").value}`;
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
