// When a region is fetched again, what the reader has opened stays open, and what they type stays as it is.
export function startMorphing() {
  const defaults = window.Idiomorph?.defaults;
  if (!defaults) return;
  defaults.ignoreActiveValue = true;
  defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
}
