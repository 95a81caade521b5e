// Draws over a document what must not be seen in a picture of it, and boxes around elements; gives the layer, to be removed.
// `hits`: [part of the survey, first character, character after the last].
([survey, hits, marks]) => {
  const layer = document.createElement('div');
  const shadow = layer.attachShadow({mode: 'closed'});
  layer.style.cssText = 'all:initial;position:absolute;left:0;top:0;z-index:2147483647;pointer-events:none';
  const TAG = 'position:absolute;left:0;top:-16px;font:12px sans-serif;background:#fff;color:#000;white-space:nowrap';

  function box(x, y, width, height, style, words) {
    const one = document.createElement('div');
    const place = `left:${x}px;top:${y}px;width:${width}px;height:${height}px;`;
    one.style.cssText = 'position:absolute;box-sizing:border-box;' + place + style;
    if (words) {
      const tag = document.createElement('div');
      tag.textContent = words;
      tag.style.cssText = TAG;
      one.append(tag);
    }
    shadow.append(one);
  }

  function hide(rect, overhang = 1) {
    const [x, y] = [rect.x + window.scrollX - overhang, rect.y + window.scrollY - 1];
    box(x, y, rect.width + 2 * overhang, rect.height + 2, 'background:#000');
  }

  // Each node by itself: no range goes from one tree into another.
  function hideText(nodes, start, end) {
    let at = 0;
    for (const node of nodes) {
      const [from, to] = [Math.max(0, start - at), Math.min(node.length, end - at)];
      at += node.length;
      if (from >= to) continue;
      const range = document.createRange();
      range.setStart(node, from);
      range.setEnd(node, to);
      // Slanted and swashed letters reach out of their boxes, by a part of their height.
      for (const rect of range.getClientRects()) hide(rect, 1 + rect.height / 3);
    }
  }

  for (const [part, start, end] of hits) {
    const {nodes, element} = survey.places[part];
    if (nodes) hideText(nodes, start, end);
    else hide(element.getBoundingClientRect());
  }
  for (const [x, y, width, height, colour, words] of marks)
    box(x - 2, y - 2, width + 4, height + 4, `border:3px solid ${colour}`, words);
  document.documentElement.append(layer);
  return layer;
}
