// Draws over a page what must not be seen in a picture of it, and boxes around elements; gives the layer, to be removed.
([secrets, marks]) => {
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

  const hide = (rect, dx, dy) => box(rect.x + dx, rect.y + dy, rect.width, rect.height, 'background:#000');
  const holds = (text) => secrets.some((secret) => text.includes(secret));
  const saysItself = (element) => Array.from(element.childNodes).some((node) => node.nodeType === 3 && holds(node.data));

  function visit(root, dx, dy) {
    if (!root) return;
    for (const element of root.querySelectorAll('*')) {
      if (element.shadowRoot) visit(element.shadowRoot, dx, dy);
      if (typeof element.value === 'string' && holds(element.value)) hide(element.getBoundingClientRect(), dx, dy);
      if (saysItself(element)) for (const rect of element.getClientRects()) hide(rect, dx, dy);
      if (element.localName !== 'iframe') continue;
      let inner = null;
      try { inner = element.contentDocument; } catch { inner = null; }
      const rect = element.getBoundingClientRect();
      visit(inner, dx + rect.x + element.clientLeft, dy + rect.y + element.clientTop);
    }
  }

  if (secrets.length) visit(document, window.scrollX, window.scrollY);
  for (const [x, y, width, height, colour, words] of marks)
    box(x - 2, y - 2, width + 4, height + 4, `border:3px solid ${colour}`, words);
  document.documentElement.append(layer);
  return layer;
}
