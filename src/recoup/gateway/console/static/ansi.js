// What a program printed for a terminal, as lines with colours. Colours (SGR) become names of classes; every other control sequence
// is dropped. Text stays text: nothing here makes markup.
const SEQUENCE = /\x1b\[([0-?]*)[ -\/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -\/]*[0-~]|\x9b([0-?]*)[ -\/]*([@-~])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const LINE_CHARS_MAX = 10000;

export const plainStyle = () => ({ bold: false, faint: false, italic: false, underline: false, inverse: false, front: "", back: "" });

// One line: its text, and where which classes hold: [begin, end, classes]. `style` goes on into the next line.
export function parseLine(raw, style) {
  const cut = raw.length > LINE_CHARS_MAX;
  const given = afterReturn(cut ? raw.slice(0, LINE_CHARS_MAX) : raw);
  if (!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(given) && !classes(style)) return { text: given + (cut ? " …" : ""), spans: [] };
  let text = "", last = 0;
  const spans = [];
  const add = (piece) => {
    if (!piece) return;
    const names = classes(style);
    if (names) spans.push([text.length, text.length + piece.length, names]);
    text += piece;
  };
  for (const found of given.matchAll(SEQUENCE)) {
    add(given.slice(last, found.index));
    last = found.index + found[0].length;
    if (found[2] === "m" || found[4] === "m") apply(style, found[1] ?? found[3] ?? "");
  }
  add(given.slice(last));
  return { text: text + (cut ? " …" : ""), spans };
}

// A progress bar writes over itself: what it said last counts.
function afterReturn(raw) {
  const whole = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  return whole.slice(whole.lastIndexOf("\r") + 1);
}

function classes(style) {
  const names = [];
  for (const key of ["bold", "faint", "italic", "underline", "inverse"]) if (style[key]) names.push(`a-${key}`);
  if (style.front) names.push(`a-${style.front}`);
  if (style.back) names.push(`a-on-${style.back}`);
  return names.join(" ");
}

function apply(style, said) {
  const codes = said.split(/[;:]/).map((one) => one === "" ? 0 : Number(one));
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) Object.assign(style, plainStyle());
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style.bold = style.faint = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code >= 30 && code <= 37) style.front = NAMES[code - 30];
    else if (code >= 90 && code <= 97) style.front = "bright-" + NAMES[code - 90];
    else if (code === 39) style.front = "";
    else if (code >= 40 && code <= 47) style.back = NAMES[code - 40];
    else if (code >= 100 && code <= 107) style.back = "bright-" + NAMES[code - 100];
    else if (code === 49) style.back = "";
    else if (code === 38 || code === 48) {
      const far = codes[at + 1] === 5 ? 2 : codes[at + 1] === 2 ? 4 : 0;
      const named = far === 2 ? nearest(codes[at + 2]) : "";
      if (code === 38) style.front = named; else style.back = named;
      at += far;
    }
  }
}

// Of 256 colours the first sixteen have names; of the others none is shown.
function nearest(number) {
  if (!(number >= 0 && number < 16)) return "";
  return number < 8 ? NAMES[number] : "bright-" + NAMES[number - 8];
}
