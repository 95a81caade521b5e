// One line at the foot of the page, read aloud by screen readers: what was just done, or why not.
let fading;

export function say(words, tone = "plain") {
  const place = document.getElementById("said");
  if (!place) return;
  place.textContent = words;
  place.dataset.tone = tone;
  place.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => place.classList.remove("shown"), tone === "bad" ? 12000 : 5000);
}
