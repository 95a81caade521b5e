// One stream for the whole page. When something came, at most twice a second, the regions of the page (parts.html: live) are
// fetched again and changed in place: focus, selection and what was typed stay.
const GATHER_MS = 500;
const QUIET_MS = 30000;

export function startLive() {
  if (!document.querySelector("[data-live], [data-live-run]")) { document.getElementById("live")?.remove(); return; }
  const run = document.querySelector("[data-live-run]")?.dataset.liveRun;
  const source = new EventSource("/api/stream" + (run ? `?run=${encodeURIComponent(run)}` : ""));
  source.onopen = () => show("live");
  source.onerror = () => show(source.readyState === EventSource.CLOSED ? "off" : "again");
  source.addEventListener("arrivals", (event) => { came(JSON.parse(event.data)); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waits) gather(); });
  window.addEventListener("pagehide", () => source.close());
  setInterval(() => { if (!document.hidden) refresh(); }, QUIET_MS);
}

let waits = false;
let gathering = 0;

function came(change) {
  document.dispatchEvent(new CustomEvent("recoup:changed", { detail: change }));
  gather();
}

function gather() {
  waits = true;
  if (gathering || document.hidden) return;
  gathering = setTimeout(() => { gathering = 0; refresh(); }, GATHER_MS);
}

function refresh() {
  waits = false;
  window.htmx?.trigger(document.body, "recoup:live");
}

function show(state) {
  const place = document.getElementById("live");
  if (!place) return;
  place.dataset.state = state;
  place.querySelector(".live-words").textContent = { live: "live", again: "connecting again", off: "not live" }[state];
}
