// Describes the elements of a page, in one walk: shadow roots and frames of the same origin included.
// Returns {sent, nodes, frames}: the description as text (many times quicker than values), the nodes it is about, and the
// elements that are frames by their numbers. Nothing is left in the page, nothing that was typed is read.
// Sending takes as long as collecting, and each quote is escaped again on every leg of the way. So every text is sent once,
// without quotes: the first line is numbers, places in the table of texts, and each line after it is a text of the table.
(options) => {
  const TEXT_MAX = 500, SHORT_MAX = 100, ATTRIBUTES_MAX = 8, NEIGHBOURS = 6, ANCESTORS = 8, DEPTH_MAX = 250;
  const {elementsMax, nodesMax, css, only, offset} = options;
  const SKIPPED = new Set(['script', 'style', 'noscript', 'template', 'head', 'meta', 'link', 'br', 'wbr', 'source',
    'track', 'param', 'base', 'datalist', 'option', 'optgroup', 'col', 'colgroup']);
  const INLINE = new Set(['a', 'abbr', 'b', 'bdi', 'bdo', 'cite', 'code', 'data', 'dfn', 'em', 'font', 'i', 'kbd', 'mark',
    'q', 's', 'samp', 'small', 'span', 'strong', 'sub', 'sup', 'time', 'tt', 'u', 'var', 'label', 'slot']);
  const ACTED_ON = new Set(['a', 'button', 'input', 'select', 'textarea', 'summary', 'label', 'area', 'video', 'audio']);
  const TELLING = new Set(['img', 'svg', 'canvas', 'iframe', 'table', 'form', 'li', 'tr', 'td', 'th', 'fieldset', 'dialog',
    'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'section', 'article', 'nav', 'main', 'aside', 'header', 'footer', 'ul', 'ol', 'details',
    'legend', 'caption', 'progress', 'meter', 'output', 'p', 'dt', 'dd', 'figure', 'object', 'embed']);
  const TYPED = new Set(['textarea', 'select']);
  const INPUT_ROLES = {button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox',
    radio: 'radio', range: 'slider', number: 'spinbutton', search: 'searchbox', hidden: '', color: '', file: 'button',
    date: '', time: '', month: '', week: '', 'datetime-local': ''};
  const ROLES = {button: 'button', textarea: 'textbox', h1: 'heading', h2: 'heading', h3: 'heading',
    h4: 'heading', h5: 'heading', h6: 'heading', ul: 'list', ol: 'list', menu: 'list', li: 'listitem', table: 'table',
    tr: 'row', td: 'cell', nav: 'navigation', main: 'main', aside: 'complementary', article: 'article', dialog: 'dialog',
    fieldset: 'group', details: 'group', optgroup: 'group', hr: 'separator', progress: 'progressbar', meter: 'meter',
    output: 'status', p: 'paragraph', dt: 'term', dd: 'definition', figure: 'figure', thead: 'rowgroup', tbody: 'rowgroup',
    tfoot: 'rowgroup', svg: 'img', caption: 'caption', em: 'emphasis', strong: 'strong', code: 'code', blockquote: 'blockquote'};
  const NAMED_BY_CONTENT = new Set(['button', 'link', 'heading', 'cell', 'gridcell', 'columnheader', 'rowheader', 'row',
    'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'treeitem', 'option', 'tooltip',
    'caption', 'term']);
  const SECTIONING = 'article,aside,main,nav,section';
  const CONTAINER_ROLES = new Set(['listitem', 'row', 'article', 'group', 'option', 'treeitem', 'dialog', 'alertdialog']);
  const UNEVEN = /[^\S ]|  |^ | $/;
  const collapsed = (text) => UNEVEN.test(text) ? text.replace(/\s+/g, ' ').trim() : text;
  const tenth = (number) => Math.round(number * 10) / 10;
  const cut = (text, most) => text.length > most ? text.slice(0, most) : text;

  const nodes = [], found = [], frames = {}, leaves = [], strings = [''], places = new Map([['', 0]]), paths = [];
  const say = (text) => {
    if (!text) return 0;
    let place = places.get(text);
    if (place === undefined) {
      place = strings.length;
      strings.push(text.includes('\n') ? text.replaceAll('\n', ' ') : text);
      places.set(text, place);
    }
    return place;
  };
  let walked = 0, truncated = false;

  // What it is called

  function roleOf(element, tag, has) {
    const said = has('role') ? element.getAttribute('role') : '';
    if (said) {
      const first = said.trim().split(/\s+/)[0].toLowerCase();
      if (first && first !== 'none' && first !== 'presentation') return first;
      if (first) return '';
    }
    switch (tag) {
      case 'a': case 'area': return element.hasAttribute('href') ? 'link' : '';
      case 'input': {
        const type = element.type;
        if (type in INPUT_ROLES) return INPUT_ROLES[type] === 'searchbox' && element.hasAttribute('list') ? 'combobox' : INPUT_ROLES[type];
        return element.hasAttribute('list') ? 'combobox' : 'textbox';
      }
      case 'select': return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
      case 'img': return element.getAttribute('alt') === '' ? '' : 'img';
      case 'th': return element.getAttribute('scope') === 'row' ? 'rowheader' : 'columnheader';
      case 'header': return element.closest(SECTIONING) ? '' : 'banner';
      case 'footer': return element.closest(SECTIONING) ? '' : 'contentinfo';
      case 'section': return element.hasAttribute('aria-label') || element.hasAttribute('aria-labelledby') ? 'region' : '';
      case 'form': return element.hasAttribute('aria-label') || element.hasAttribute('aria-labelledby') ? 'form' : '';
      default: return ROLES[tag] || (has('contenteditable') && element.isContentEditable ? 'textbox' : '');
    }
  }

  const wordsOf = (element) => collapsed(element.getAttribute('aria-label') || plain(element, TEXT_MAX));

  // The words of an element that is not in the walk, such as a label, without what is typed in it.
  function plain(element, most) {
    let words = '';
    const visit = (node) => {
      for (let child = node.firstChild; child && words.length < most; child = child.nextSibling) {
        if (child.nodeType === 3) words += child.data;
        else if (child.nodeType === 1) {
          const tag = child.localName;
          if (SKIPPED.has(tag) || TYPED.has(tag) || tag === 'input') continue;
          if (tag === 'img') words += ' ' + (child.getAttribute('alt') || '') + ' ';
          else { if (!INLINE.has(tag)) words += ' '; visit(child); if (!INLINE.has(tag)) words += ' '; }
        }
      }
    };
    visit(element);
    return cut(words, most);
  }

  // By way of the labels: to ask each field for its own would search the whole page for each.
  const labelled = new Map();
  function labelsIn(root) {
    let words = labelled.get(root);
    if (words) return words;
    labelled.set(root, words = new Map());
    for (const label of root.querySelectorAll('label')) {
      const field = label.control;
      if (field) words.set(field, cut(collapsed((words.get(field) || '') + ' ' + plain(label, TEXT_MAX)), TEXT_MAX));
    }
    return words;
  }

  function referred(element, attribute) {
    const ids = attribute('aria-labelledby');
    if (!ids) return '';
    const root = element.getRootNode();
    const named = ids.trim().split(/\s+/).slice(0, 8).map((id) => root.getElementById && root.getElementById(id));
    return collapsed(named.filter(Boolean).map(wordsOf).join(' '));
  }

  function nameOf(element, tag, role, label, content, attribute) {
    const said = referred(element, attribute) || collapsed(attribute('aria-label'));
    if (said) return said;
    if (tag === 'input') {
      const type = element.type;
      if (type === 'submit' || type === 'reset' || type === 'button') {
        const words = element.getAttribute('value');
        if (words) return collapsed(words);
        if (!label && type !== 'button') return type === 'submit' ? 'Submit' : 'Reset';
      }
      if (type === 'image') return label || collapsed(element.getAttribute('alt') || element.getAttribute('title') || 'Submit');
    }
    if (label) return label;
    if (tag === 'img' || tag === 'area') { const alt = collapsed(element.getAttribute('alt') || ''); if (alt) return alt; }
    if (tag === 'svg') { const title = element.querySelector(':scope > title'); if (title) return collapsed(title.textContent); }
    if (tag === 'fieldset') { const legend = element.querySelector(':scope > legend'); if (legend) return wordsOf(legend); }
    if (tag === 'table') { const caption = element.querySelector(':scope > caption'); if (caption) return wordsOf(caption); }
    if (tag === 'iframe') return collapsed(element.getAttribute('title') || '');
    if (NAMED_BY_CONTENT.has(role) && content) return content;
    return collapsed(attribute('title') || attribute('placeholder'));
  }

  // How it is

  const VISIBLY = {visibilityProperty: true};
  // What has no box itself (display: contents) is as visible as what it is in.
  const isVisible = (element, place) => element.checkVisibility(VISIBLY) ||
    (place.visible !== false && getComputedStyle(element).display === 'contents' && getComputedStyle(element).visibility === 'visible');
  const NOWHERE = {x: 0, y: 0, width: 0, height: 0};
  const hasArea = (rect) => rect.width > 0 && rect.height > 0;

  const FIELDS = new Set(['button', 'input', 'select', 'textarea', 'fieldset']);
  const isEnabled = (element, tag, here) => !here.disabled && !(FIELDS.has(tag) && element.matches(':disabled'));

  const OTHERS = /^(aria-(?!label$|labelledby$|hidden$|disabled$|value)|data-(?!testid$|test-id$|test$)|for$|action$|src$|target$|rel$)/;
  function othersOf(element, names) {
    const others = [];
    for (const name of names) {
      if (others.length === 2 * ATTRIBUTES_MAX) break;
      if (name === 'id' || name === 'class' || name === 'style' || name.endsWith('value') || !OTHERS.test(name)) continue;
      const value = element.getAttribute(name);
      if (value && value.length <= 4 * SHORT_MAX) others.push(say(name), say(cut(value, SHORT_MAX)));
    }
    return others;
  }

  function isTelling(element, tag, names) {
    if (ACTED_ON.has(tag) || TELLING.has(tag)) return true;
    for (const name of names) {
      if (name === 'id' || name === 'role' || name === 'onclick' || name === 'tabindex' || name === 'contenteditable' ||
          name === 'title' || name.startsWith('aria-label') || name.startsWith('data-test')) return true;
    }
    return hasOwnText(element) || (css ? matches(element) : false);
  }

  function matches(element) { try { return element.matches(css); } catch { return false; } }

  const CLASSES_MAX = 12, NONE = [];
  // Few lists of classes are on a page, and many times each.
  const classLists = new Map([['', NONE]]);
  function classesOf(value) {
    let known = classLists.get(value);
    if (known === undefined) {
      const words = [...new Set(value.split(/\s+/).filter(Boolean))].slice(0, CLASSES_MAX);
      classLists.set(value, known = words.map((word) => say(cut(word, SHORT_MAX))));
    }
    return known;
  }

  function described(element, tag, names, here, content) {
    const attribute = (name) => names.includes(name) ? element.getAttribute(name) : '';
    const rect = here.visible ? element.getBoundingClientRect() : NOWHERE, role = here.role;
    const label = FIELDS.has(tag) && tag !== 'fieldset' || tag === 'output' ? labelsIn(here.root).get(element) || '' : '';
    const classes = classesOf(attribute('class'));
    const flags = (here.shown && here.visible && hasArea(rect) ? 1 : 0) + (isEnabled(element, tag, here) ? 2 : 0);
    const words = (name, most) => { const value = attribute(name); return value ? say(cut(collapsed(value), most)) : 0; };
    return [
      say(tag), say(role), tag === 'input' || tag === 'button' ? say(element.type) : 0,
      say(cut(nameOf(element, tag, role, label, content.named, attribute), TEXT_MAX)), say(content.text),
      say(cut(attribute('id'), SHORT_MAX)),
      say(cut(attribute('data-testid') || attribute('data-test-id') || attribute('data-test'), SHORT_MAX)),
      say(cut(attribute('name'), SHORT_MAX)), classes,
      say(cut(attribute('href'), TEXT_MAX)), words('alt', TEXT_MAX), words('title', TEXT_MAX), words('placeholder', TEXT_MAX),
      say(label), names.length ? othersOf(element, names) : NONE,
      tenth(here.x + rect.x), tenth(here.y + rect.y), tenth(rect.width), tenth(rect.height), flags, here.path, here.frame,
    ];
  }

  // The walk

  const NOTHING = {text: '', named: '', visible: false};

  function walk(element, place, tag, number, depth) {
    if (++walked > nodesMax || found.length >= elementsMax || depth > DEPTH_MAX) { truncated = true; return NOTHING; }
    const names = element.hasAttributes() ? element.getAttributeNames() : NONE, has = (name) => names.includes(name);
    const role = roleOf(element, tag, has);
    const edited = has('contenteditable') ? element.isContentEditable : false;
    const typed = TYPED.has(tag) || tag === 'input' || edited;
    const own = has('id') ? element.id : '';
    const here = {
      x: place.x, y: place.y, root: place.root, frame: place.frame, shown: place.shown, up: place, element, role,
      disabled: place.disabled || (has('aria-disabled') && element.getAttribute('aria-disabled') === 'true'),
      path: paths.length / 4, visible: isVisible(element, place), container: place.container, leaf: leaves.length, leafEnd: 0,
    };
    paths.push(place.path, say('/' + place.shadow + tag + '[' + number + ']'), say(role || tag), own.length && own.length <= SHORT_MAX ? say(own) : 0);
    if (isContainer(element, tag, role, has)) here.container = here;
    const at = found.length;
    const telling = only ? element === only : isTelling(element, tag, names);
    if (telling) { found.push(null); nodes.push(element); }
    here.shadow = '';
    const content = typed ? NOTHING : children(element, here, tag, depth);
    here.leafEnd = leaves.length;
    if (telling) { here.row = described(element, tag, names, here, content); found[at] = here; }
    if (tag === 'img' || tag === 'svg' || has('aria-label')) {
      const name = here.row ? strings[here.row[3]] : collapsed(element.getAttribute('aria-label') || '');
      return {text: content.text, named: name || content.named, visible: here.visible};
    }
    return content;
  }

  const CONTAINERS = new Set(['li', 'tr', 'article', 'fieldset']);
  const CARD = /(^|[-_ ])(card|item|row|tile)([-_ ]|$)/i;
  function isContainer(element, tag, role, has) {
    if (CONTAINERS.has(tag) || (role && CONTAINER_ROLES.has(role))) return true;
    return has('class') && CARD.test(element.getAttribute('class'));
  }

  function hasOwnText(element) {
    for (let child = element.firstChild; child; child = child.nextSibling)
      if (child.nodeType === 3 && /\S/.test(child.data)) return true;
    return false;
  }

  function children(element, here, tag, depth) {
    if (tag === 'iframe' || tag === 'frame') { frame(element, here, depth); return NOTHING; }
    if (!element.firstElementChild && !element.shadowRoot) return onlyText(element, here);
    let text = '', named = '', differs = false;
    const counts = new Map();
    const take = (node) => {
      for (let child = node.firstChild; child; child = child.nextSibling) {
        if (child.nodeType === 3) {
          if (text.length < TEXT_MAX) { text += child.data; named += child.data; }
          leaf(child.data, here);
        } else if (child.nodeType === 1) {
          const name = child.localName;
          const number = (counts.get(name) || 0) + 1;
          counts.set(name, number);
          if (name === 'br') { text += ' '; named += ' '; continue; }
          if (SKIPPED.has(name)) continue;
          const inside = walk(child, here, name, number, depth + 1);
          if (!inside.text && !inside.named) continue;
          if (inside.named !== inside.text) differs = true;
          const space = INLINE.has(name) ? '' : ' ';
          if (!inside.visible) continue;
          if (text.length < TEXT_MAX) text += space + inside.text + space;
          if (named.length < TEXT_MAX) named += space + inside.named + space;
        }
      }
    };
    if (element.shadowRoot) {
      const outside = here.root;
      here.shadow = 'shadow/';
      here.root = element.shadowRoot;
      take(element.shadowRoot);
      here.shadow = '';
      here.root = outside;
      counts.clear();
    }
    take(element);
    text = cut(collapsed(text), TEXT_MAX);
    return {text, named: differs ? cut(collapsed(named), TEXT_MAX) : text, visible: here.visible};
  }

  function onlyText(element, here) {
    let text = '';
    for (let child = element.firstChild; child; child = child.nextSibling)
      if (child.nodeType === 3) { leaf(child.data, here); if (text.length < TEXT_MAX) text += child.data; }
    text = cut(collapsed(text), TEXT_MAX);
    return {text, named: text, visible: here.visible};
  }

  // Hidden words tell nothing of what is around them.
  function leaf(data, here) {
    if (!here.visible) return;
    if (data.length > 20000) data = data.slice(0, 20000);
    const words = collapsed(data);
    if (words) leaves.push(say(words.length > SHORT_MAX ? words.slice(0, SHORT_MAX) : words));
  }

  const frameCounts = new Map();
  function frame(element, here, depth) {
    const count = frameCounts.get(here.frame) || 0;
    frameCounts.set(here.frame, count + 1);
    const path = [...here.frame, count];
    frames[path.join('.')] = element;
    let inner = null;
    try { inner = element.contentDocument; } catch { inner = null; }
    if (!inner || !inner.documentElement) return;
    const rect = element.getBoundingClientRect();
    walk(inner.documentElement, {
      x: here.x + rect.x + element.clientLeft, y: here.y + rect.y + element.clientTop, root: inner, frame: path,
      shown: here.shown && here.visible && hasArea(rect), up: here,
      path: -1, shadow: '', container: here.container, disabled: false,
    }, 'html', 1, depth + 1);
  }

  // What is around it

  function neighbours(here) {
    const words = [];
    for (let step = 1; words.length < NEIGHBOURS && step <= NEIGHBOURS; step++) {
      const before = leaves[here.leaf - step], after = leaves[here.leafEnd + step - 1];
      if (before) words.push(before);
      if (after && words.length < NEIGHBOURS) words.push(after);
    }
    return words;
  }

  // Of a row among rows: the words that most of the others do not have.
  const known = new Map();
  function containerWords(box) {
    let words = known.get(box.element);
    if (words !== undefined) return words;
    const siblings = alike.get(box.up && box.up.element) || [box];
    const counts = new Map();
    for (const one of siblings)
      for (const leaf of new Set(leaves.slice(one.leaf, one.leafEnd))) counts.set(leaf, (counts.get(leaf) || 0) + 1);
    for (const one of siblings) {
      const own = leaves.slice(one.leaf, Math.min(one.leafEnd, one.leaf + 40));
      const telling = siblings.length > 1 ? own.filter((leaf) => counts.get(leaf) <= Math.max(1, siblings.length / 2)) : own;
      known.set(one.element, say(cut(telling.map((leaf) => strings[leaf]).join(' '), 200)));
    }
    return known.get(box.element) || 0;
  }

  const start = only || document.documentElement;
  const origin = only ? {x: 0, y: 0} : {x: window.scrollX + (offset ? offset.x : 0), y: window.scrollY + (offset ? offset.y : 0)};
  walk(start, {...origin, root: start.getRootNode(), frame: [], shown: true, up: null, path: -1, shadow: '', container: null, disabled: false}, start.localName, 1, 0);

  const alike = new Map();
  const boxes = new Set();
  for (const here of found) if (here && here.container) boxes.add(here.container);
  for (const box of boxes) {
    const parent = box.up && box.up.element;
    if (!alike.has(parent)) alike.set(parent, []);
    alike.get(parent).push(box);
  }
  const rows = [], keptNodes = [];
  found.forEach((here, index) => {
    if (!here) return;
    if (!only) here.row.push(here.container ? containerWords(here.container) : 0, neighbours(here));
    rows.push(here.row);
    keptNodes.push(nodes[index]);
  });
  return {
    sent: JSON.stringify({paths, rows, truncated, url: location.href, title: document.title,
      width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
      viewport: [window.innerWidth, window.innerHeight], scale: window.devicePixelRatio}) + '\n' + strings.join('\n'),
    nodes: keptNodes, frames,
  };
}
