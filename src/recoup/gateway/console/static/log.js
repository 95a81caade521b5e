// What a step prints, as it does. Only the lines in view are in the page, however many there are; what is far back is fetched when somebody wants it.
import { parseLine, plainStyle } from "./ansi.js";
import { get } from "./asking.js";

const PIECE_BYTES = 256000;
const LINES_MAX = 100000;
const LINE_PX = 18;
const AROUND = 60;
const MATCHES_MAX = 10000;
const HEADING = /^--- attempt (\d+) of .* at [0-9T:.-]+Z?$/;

const box = document.getElementById("log");
if (box) new Log(box).start();

function Log(place) {
  const find = (name) => place.querySelector(`[data-log="${name}"]`);
  const view = place.querySelector("[data-log-view]");
  const sizer = place.querySelector("[data-log-size]");
  const shownLines = place.querySelector("[data-log-lines]");
  const state = place.querySelector("[data-log-state]");
  const countWords = place.querySelector("[data-log-count]");
  const search = document.getElementById("log-find");
  const attempt = document.getElementById("log-attempt");
  const address = `/api/runs/${encodeURIComponent(place.dataset.run)}/logs/${encodeURIComponent(place.dataset.step)}`;

  let lines = [];            // {text, spans, attempt}
  let shown = lines;         // those of the chosen attempt, or all
  let begin = 0;             // the place in bytes of the first line
  let end = 0;               // behind the last byte that came
  let rest = "";             // a line whose end has not come
  let style = plainStyle();
  let number = 0;            // the attempt of the last line
  let following = true;
  let matches = [];
  let match = -1;
  let dropped = false;
  let asked = 0;

  this.start = async () => {
    view.addEventListener("scroll", scrolled, { passive: true });
    new ResizeObserver(draw).observe(view);
    find("earlier").addEventListener("click", earlier);
    find("follow").addEventListener("click", () => follow(!following));
    find("next").addEventListener("click", () => go(1));
    find("previous").addEventListener("click", () => go(-1));
    search.addEventListener("input", () => { clearTimeout(asked); asked = setTimeout(seek, 120); });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); if (asked) { clearTimeout(asked); asked = 0; seek(); } go(event.shiftKey ? -1 : 1); }
    });
    attempt?.addEventListener("change", () => { choose(); follow(false); view.scrollTop = 0; });
    await first();
    listen();
  };

  async function first() {
    const size = Number(place.dataset.bytes);
    begin = Math.max(0, size - PIECE_BYTES);
    end = begin;
    while (end < size) {
      const piece = await get(`${address}?after=${end}&limit=${PIECE_BYTES}`);
      if (!piece.log) break;
      take(end === begin && begin > 0 ? cutToLine(piece) : piece.log);
      end = piece.nextOffset;
    }
    changed();
  }

  // Of the first piece, from its first whole line on.
  function cutToLine(piece) {
    const at = piece.log.indexOf("\n") + 1;
    begin = piece.offset + new TextEncoder().encode(piece.log.slice(0, at)).length;
    return piece.log.slice(at);
  }

  async function earlier() {
    const button = find("earlier");
    button.disabled = true;
    const from = Math.max(0, begin - PIECE_BYTES);
    const piece = await get(`${address}?after=${from}&limit=${begin - from}`);
    let text = piece.log, start = from;
    if (from > 0) { const at = text.indexOf("\n") + 1; start = from + new TextEncoder().encode(text.slice(0, at)).length; text = text.slice(at); }
    const fresh = [], old = { style, number };
    style = plainStyle(); number = 0;
    for (const line of text.replace(/\n$/, "").split("\n")) fresh.push(made(line));
    const last = number;
    ({ style, number } = old);
    for (const line of lines) { if (line.attempt) break; line.attempt = last; }
    begin = start;
    const top = view.scrollTop;
    lines = fresh.concat(lines);
    choose(false);
    view.scrollTop = top + fresh.length * LINE_PX;
    button.disabled = false;
    changed();
  }

  function listen() {
    const source = new EventSource(`${address}/stream?after=${end}`);
    source.onopen = () => say(place.dataset.over === "yes" ? "" : following ? "following" : "paused");
    source.onerror = () => say(source.readyState === EventSource.CLOSED ? "ended" : "connecting again");
    source.addEventListener("log", (event) => {
      const piece = JSON.parse(event.data);
      if (piece.offset < end) again();
      take(piece.log);
      end = Number(event.lastEventId);
      changed();
    });
    source.addEventListener("end", () => { source.close(); say("the run has ended"); });
    window.addEventListener("pagehide", () => source.close());
  }

  // The log was begun anew.
  function again() {
    lines = []; shown = lines; rest = ""; style = plainStyle(); begin = 0; number = 0; matches = [];
    choose(false);
  }

  function take(text) {
    const pieces = (rest + text).split("\n");
    rest = pieces.pop();
    for (const one of pieces) add(made(one));
    if (lines.length > LINES_MAX) {
      lines.splice(0, lines.length - LINES_MAX);
      dropped = true;
      choose(false);
    }
  }

  function made(raw) {
    const heading = HEADING.exec(raw);
    if (heading) { number = Number(heading[1]); style = plainStyle(); }
    const line = parseLine(raw, style);
    line.attempt = number;
    line.heading = Boolean(heading);
    return line;
  }

  function add(line) {
    lines.push(line);
    if (shown !== lines && String(line.attempt) === attempt.value) shown.push(line);
    if (search.value) mark(line, shown.length - 1);
  }

  function choose(fresh = true) {
    shown = attempt?.value ? lines.filter((line) => String(line.attempt) === attempt.value) : lines;
    if (search.value) seek();
    if (fresh) changed();
  }

  // Searching

  function seek() {
    asked = 0;
    matches = [];
    match = -1;
    const wanted = search.value.toLowerCase();
    if (wanted) for (let at = 0; at < shown.length && matches.length < MATCHES_MAX; at += 1) if (shown[at].text.toLowerCase().includes(wanted)) matches.push(at);
    tell();
    if (matches.length) { match = nearest(); show(); } else draw();
  }

  function mark(line, at) {
    if (matches.length < MATCHES_MAX && line.text.toLowerCase().includes(search.value.toLowerCase())) { matches.push(at); tell(); }
  }

  function nearest() {
    const top = Math.floor(view.scrollTop / LINE_PX);
    const at = matches.findIndex((line) => line >= top);
    return at < 0 ? matches.length - 1 : at;
  }

  function go(way) {
    if (!matches.length) return;
    match = (match + way + matches.length) % matches.length;
    show();
  }

  function show() {
    follow(false);
    tell();
    view.scrollTop = Math.max(0, matches[match] * LINE_PX - view.clientHeight / 2);
    draw();
  }

  function tell() {
    const many = matches.length >= MATCHES_MAX ? "+" : "";
    const part = begin > 0 || dropped ? " in this part" : "";
    countWords.textContent = !search.value ? "" : !matches.length ? `nothing${part}` : `${match < 0 ? 0 : match + 1} of ${matches.length}${many}${part}`;
  }

  // Following and drawing

  function follow(wanted) {
    following = wanted;
    find("follow").setAttribute("aria-pressed", String(following));
    find("follow").textContent = following ? "Following" : "Follow";
    if (following) { view.scrollTop = view.scrollHeight; }
    if (place.dataset.over !== "yes") say(following ? "following" : "paused");
  }

  function scrolled() {
    const atEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - LINE_PX * 2;
    if (following && !atEnd) follow(false);
    draw();
  }

  function changed() {
    find("earlier").hidden = begin <= 0;
    find("earlier").textContent = `Show earlier (${size(begin)})`;
    sizer.style.height = `${Math.max(1, shown.length) * LINE_PX}px`;
    if (following) view.scrollTop = view.scrollHeight;
    draw();
  }

  let drawing = 0;
  function draw() {
    if (!drawing) drawing = requestAnimationFrame(() => { drawing = 0; paint(); });
  }

  function paint() {
    const top = Math.max(0, Math.floor(view.scrollTop / LINE_PX) - AROUND);
    const bottom = Math.min(shown.length, Math.ceil((view.scrollTop + view.clientHeight) / LINE_PX) + AROUND);
    shownLines.style.transform = `translateY(${top * LINE_PX}px)`;
    const made = [];
    for (let at = top; at < bottom; at += 1) made.push(row(shown[at], at));
    if (!shown.length) { const empty = document.createElement("div"); empty.className = "soft"; empty.textContent = "Nothing was printed yet."; made.push(empty); }
    shownLines.replaceChildren(...made);
  }

  function row(line, at) {
    const made = document.createElement("div");
    made.className = "l" + (line.heading ? " heading" : "") + (matches.length && matches[match] === at ? " found" : "");
    const cuts = pieces(line);
    for (const [text, names, isMatch] of cuts) {
      if (!names && !isMatch) { made.append(text); continue; }
      const piece = document.createElement(isMatch ? "mark" : "span");
      if (names) piece.className = names;
      piece.textContent = text;
      made.append(piece);
    }
    if (!line.text) made.append("\u200b");
    return made;
  }

  // The line in pieces: colours and matches may overlap.
  function pieces(line) {
    const wanted = search.value.toLowerCase();
    const edges = new Set([0, line.text.length]);
    const hits = [];
    if (wanted) for (let at = line.text.toLowerCase().indexOf(wanted); at >= 0 && hits.length < 200; at = line.text.toLowerCase().indexOf(wanted, at + wanted.length)) hits.push([at, at + wanted.length]);
    for (const [a, b] of [...hits, ...line.spans]) { edges.add(a); edges.add(b); }
    const order = [...edges].sort((a, b) => a - b);
    const found = [];
    for (let at = 0; at + 1 < order.length; at += 1) {
      const [a, b] = [order[at], order[at + 1]];
      const names = line.spans.filter(([from, to]) => from <= a && b <= to).map((one) => one[2]).join(" ");
      found.push([line.text.slice(a, b), names, hits.some(([from, to]) => from <= a && b <= to)]);
    }
    return found;
  }

  function say(words) { state.textContent = words; }

  const size = (bytes) => bytes > 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1000)} kB`;
}
