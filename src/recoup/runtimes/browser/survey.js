// Everything that a document writes into a picture of it, in parts that are read as one: the text of a block, whatever
// its inline elements are, the value or placeholder of a field, what a style adds. Gives the texts and where they stand.
() => {
  const SILENT = new Set(['script', 'style', 'noscript', 'template', 'head', 'title']);
  const texts = [];
  const places = [];
  const inline = new Map();

  function isInline(element) {
    let known = inline.get(element);
    if (known === undefined) inline.set(element, (known = getComputedStyle(element).display.startsWith('inline')));
    return known;
  }

  function blockOf(node) {
    let element = node.parentElement;
    while (element && element.parentElement && isInline(element)) element = element.parentElement;
    return element || node.getRootNode();
  }

  function add(text, place) {
    if (!text || !text.trim()) return;
    texts.push(text);
    places.push(place);
  }

  function addBlock(nodes) {
    if (nodes.length) add(nodes.map((node) => node.data).join(''), {nodes});
  }

  function addField(element) {
    const hidden = element.localName === 'input' && ['checkbox', 'radio', 'hidden', 'image'].includes(element.type);
    if (hidden) return;
    add(typeof element.value === 'string' ? element.value : '', {element});
    if (!element.value) add(element.getAttribute('placeholder'), {element});
  }

  function addStyle(element) {
    for (const pseudo of ['::before', '::after']) {
      const content = getComputedStyle(element, pseudo).content;
      if (content && content.length > 5 && content !== 'normal') add(content.replace(/^["']|["']$/g, ''), {element});
    }
  }

  // Without a walker: where a frame may run no scripts, no callback of a walker is run either.
  function next(node, root, skipped) {
    if (!skipped && node.firstChild) return node.firstChild;
    for (; node && node !== root; node = node.parentNode) if (node.nextSibling) return node.nextSibling;
    return null;
  }

  function visit(root) {
    let block = null;
    let nodes = [];
    let silent = false;
    for (let node = next(root, root, false); node; node = next(node, root, silent)) {
      silent = SILENT.has(node.localName);
      if (silent || (node.nodeType !== Node.TEXT_NODE && node.nodeType !== Node.ELEMENT_NODE)) continue;
      if (node.nodeType === Node.TEXT_NODE) {
        const now = blockOf(node);
        if (now !== block) {
          addBlock(nodes);
          [block, nodes] = [now, []];
        }
        nodes.push(node);
        continue;
      }
      if (node.localName === 'br') {
        addBlock(nodes);
        nodes = [];
      }
      if (['input', 'textarea', 'select', 'button'].includes(node.localName)) addField(node);
      if (node.localName === 'img') add(node.alt, {element: node});
      addStyle(node);
      if (node.shadowRoot) visit(node.shadowRoot);
    }
    addBlock(nodes);
  }

  visit(document);
  return {texts, places};
}
