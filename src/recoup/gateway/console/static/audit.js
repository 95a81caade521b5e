// The check of the chain, on request: it walks every file and takes a while.
import { element } from "./actions.js";
import { get } from "./asking.js";

const button = document.getElementById("verify");
const place = document.getElementById("verified");

button.addEventListener("click", async () => {
  button.disabled = true;
  place.replaceChildren(element("p", { className: "soft" }, "Walking the chain…"));
  try {
    place.replaceChildren(...told(await get("/api/audit/verify")));
  } catch (error) {
    place.replaceChildren(element("p", { className: "note bad" }, `${error.message}. ${error.hint}`));
  }
  button.disabled = false;
});

function told(found) {
  const words = found.intact
    ? `The chain is intact: ${found.lines} lines in ${found.files} files, ${found.events} events.`
    : `BROKEN in ${found.firstBreak.file}${found.firstBreak.line ? `, line ${found.firstBreak.line}` : ""}: ${found.firstBreak.what}`;
  const lines = [element("p", { className: found.intact ? "note fine" : "note bad" }, words)];
  if (found.ledger) lines.push(element("p", { className: "soft" }, `In the ledger: ${found.ledger.events} events, ${found.ledger.waiting} of them not exported yet; ${found.ledger.pruned} in the audit alone, because they were pruned.`));
  if (found.gapsCount) {
    const list = element("ul", {});
    for (const one of found.gaps.slice(0, 20)) list.append(element("li", {}, `${one.file}, line ${one.line}: a gap${one.filled ? ", filled from the ledger" : ""}`));
    lines.push(element("p", {}, `${found.gapsCount} gaps were recorded:`), list);
  }
  return lines;
}
