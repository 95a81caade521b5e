// Tells what a person does in this frame, each thing with the page as it was right then: listeners of the window that
// come before those of the page, so that nothing has changed yet and no navigation can be quicker.
(collect, options) => {
  const {elementsMax, nodesMax, textMax, tell, describes} = options;
  const ENTERED_MS = 500;
  const ACTED_ON = 'a[href],area[href],button,input,select,textarea,summary,label,[contenteditable=""],[contenteditable=true],' +
    '[role=button],[role=link],[role=tab],[role=menuitem],[role=menuitemcheckbox],[role=menuitemradio],[role=option],' +
    '[role=checkbox],[role=radio],[role=switch],[role=treeitem],[onclick]';
  const NOT_TYPED = new Set(['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'file', 'hidden']);
  const STEPPED = new Set(['number', 'range', 'date', 'time', 'month', 'week', 'datetime-local', 'color']);
  const ARROWS = new Set(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight']);
  const NAMED = new Set(['Enter', 'Escape', ...ARROWS]);
  const HOLDING = new Set(['Control', 'Shift', 'Alt', 'Meta', 'AltGraph', 'CapsLock', 'Tab']);
  const OF_THE_BROWSER = new Set('acvxzyftwnrlpd+-0'.split(''));
  const HIDDEN = /(?:^|\s)(?:one-time-code|cc-number|cc-csc|current-password|new-password)(?:\s|$)/;
  const secrets = new WeakSet();
  let typing = {element: null, key: ''}, typed = 0, entered = {at: -Infinity, form: null}, byLabel = null;
  const own = Math.random().toString(36).slice(2);

  function describe(element) {
    const seen = collect({elementsMax, nodesMax, css: null, offset: null});
    for (let node = element; node; node = node.parentNode || node.host) {
      const index = seen.nodes.indexOf(node);
      if (index >= 0) return {sent: seen.sent, index};
    }
    return null;
  }
  Object.defineProperty(window, describes, {value: describe});

  // A page and its frames of the same origin are looked at as one, as when the plan is run.
  function outermost() {
    let here = window, up = 0;
    while (here !== here.parent) {
      try { if (typeof here.parent[describes] !== 'function') break; } catch { break; }
      here = here.parent;
      up++;
    }
    return {here, up};
  }

  function say(deed, element) {
    const {here, up} = outermost();
    const seen = element ? here[describes](element) : null;
    if (deed.kind !== 'fill') typing = {element: null, key: ''};
    window[tell](JSON.stringify({...deed, up, page: seen ? seen.sent : '', index: seen ? seen.index : -1}));
  }

  const elementsOf = (event) => event.composedPath().filter((node) => node.nodeType === 1);
  const isBox = (field) => field.localName === 'input' && (field.type === 'checkbox' || field.type === 'radio');
  const isFile = (field) => field.localName === 'input' && field.type === 'file';
  const isTyped = (field) => field.localName === 'textarea' || field.localName === 'input' && !NOT_TYPED.has(field.type);
  const isSubmit = (field) => field.type === 'submit' || field.type === 'image';
  const isShown = (field) => {
    const rect = field.getBoundingClientRect();
    return rect.width > 0 && rect.height > 0 && field.checkVisibility({visibilityProperty: true});
  };

  function edited(event) {
    const first = elementsOf(event)[0];
    if (!first) return null;
    if (isTyped(first)) return first;
    if (!first.isContentEditable) return null;
    let host = first;
    while (host.parentElement && host.parentElement.isContentEditable) host = host.parentElement;
    return host;
  }

  function isSecret(field) {
    if (field.type === 'password' || HIDDEN.test(field.getAttribute('autocomplete') || '')) secrets.add(field);
    const shown = getComputedStyle(field).webkitTextSecurity;
    if (shown && shown !== 'none') secrets.add(field);
    return secrets.has(field);
  }

  function actedOn(event) {
    const around = elementsOf(event).filter((element) => element.localName !== 'html' && element.localName !== 'body');
    return around.find((element) => element.matches(ACTED_ON)) || around[0];
  }

  function clicked(event) {
    const element = actedOn(event);
    if (!element) return;
    if (!event.isTrusted) { if (isFile(element)) say({kind: 'chooser'}); return; }
    if (event.detail === 0 && event.timeStamp - entered.at < ENTERED_MS && isSubmit(element) && element.form === entered.form) return;
    const field = element.localName === 'label' && element.control || element;
    if (isTyped(field) || field.isContentEditable || field.localName === 'select' || isFile(field)) return;
    if (isBox(field)) {
      if (element === field || isShown(field)) return;
      byLabel = field;
    }
    say({kind: 'click', count: event.detail}, element);
  }

  function otherButton(event) {
    const element = actedOn(event);
    if (!event.isTrusted || !element || event.type === 'auxclick' && event.button !== 1) return;
    say({kind: 'click', count: 1, button: event.button === 1 ? 'middle' : 'right'}, element);
  }

  function changed(event) {
    const field = elementsOf(event)[0];
    if (!event.isTrusted || !field) return;
    if (field.localName === 'select') say({kind: 'select', values: Array.from(field.selectedOptions, (one) => named(one, field))}, field);
    else if (isFile(field)) say({kind: 'upload', values: Array.from(field.files, (file) => file.name)}, field);
    else if (isBox(field) && byLabel === field) byLabel = null;
    else if (isBox(field)) say({kind: field.checked ? 'check' : 'uncheck'}, field);
  }

  function named(option, field) {
    const label = option.label.trim();
    const alike = Array.from(field.options).filter((other) => other.label.trim() === label);
    return label && alike.length === 1 ? label : option.value;
  }

  function filled(event) {
    const field = edited(event);
    if (!event.isTrusted || !field) return;
    const goesOn = typing.element === field;
    if (!goesOn) typing = {element: field, key: own + ++typed};
    const value = field.isContentEditable ? field.innerText : field.value;
    say({kind: 'fill', key: typing.key, value: value.slice(0, textMax), cut: value.length > textMax, secret: isSecret(field)},
      goesOn ? null : field);
  }

  function pressed(event) {
    const element = elementsOf(event)[0];
    if (!event.isTrusted || event.isComposing || event.repeat || !element || HOLDING.has(event.key)) return;
    if (event.getModifierState('AltGraph') || !isTold(event, element, edited(event))) return;
    if (event.key === 'Enter') entered = {at: event.timeStamp, form: element.form || null};
    const held = ['Control', 'Alt', 'Meta'].filter((name) => event.getModifierState(name));
    if (event.shiftKey && event.key.length > 1) held.push('Shift');
    const nowhere = element.localName === 'body' || element.localName === 'html';
    say({kind: 'press', value: [...held, event.key === ' ' ? 'Space' : event.key].join('+')}, nowhere ? null : element);
  }

  // Keys that only type, move the focus or are the browser's own are no steps; what they bring about is told by itself.
  function isTold(event, element, field) {
    const lines = field && (field.localName === 'textarea' || field.isContentEditable);
    if (event.ctrlKey || event.metaKey || event.altKey)
      return event.key === 'Enter' || event.key.length === 1 && !OF_THE_BROWSER.has(event.key.toLowerCase()) && !(field && event.altKey);
    if (!NAMED.has(event.key)) return false;
    if (event.key === 'Enter') return !lines && !element.matches('a[href],button,summary,select,input[type=submit],input[type=button],input[type=reset],input[type=image],input[type=file]');
    if (!ARROWS.has(event.key)) return true;
    if (lines || element.localName === 'select' || isBox(element) || element.localName === 'body' || STEPPED.has(element.type)) return false;
    return !field || event.key === 'ArrowUp' || event.key === 'ArrowDown';
  }

  const listen = (name, listener) => window.addEventListener(name, listener, {capture: true, passive: true});
  listen('click', clicked);
  listen('auxclick', otherButton);
  listen('contextmenu', otherButton);
  listen('change', changed);
  listen('input', filled);
  listen('keydown', pressed);
  listen('focusin', (event) => { const field = edited(event); if (field) isSecret(field); });
}
