// What an element says: a table as rows, an attribute, the value of a field, or the words to be seen, with what fields
// among them hold. Passwords are not read. `{missing: true}` where there is no such thing.
(node, {table, attribute}) => {
  const PRIVATE = ['password', 'hidden', 'file', 'submit', 'button', 'reset', 'image'];
  const FIELDS = 'input,select,textarea';
  const collapsed = (words) => words.replace(/\s+/g, ' ').trim();

  function held(field) {
    if (PRIVATE.includes(field.type)) return '';
    if (field.type === 'checkbox' || field.type === 'radio') return field.checked ? 'checked' : 'not checked';
    if (field.localName !== 'select') return field.value;
    return Array.from(field.selectedOptions, (option) => option.label).join(', ');
  }

  function shown(element, visibilityProperty = true) {
    return element.checkVisibility({visibilityProperty});
  }

  function words(element) {
    if (element.matches(FIELDS)) return shown(element) ? ` ${held(element)} ` : '';
    if (!element.querySelector(FIELDS)) return element.innerText ?? element.textContent;
    return Array.from(element.childNodes, part).join('');
  }

  function part(child) {
    if (child.nodeType === Node.TEXT_NODE) return shown(child.parentElement) ? child.data : '';
    if (child.nodeType !== Node.ELEMENT_NODE) return '';
    if (!shown(child, false)) return '';
    const inline = getComputedStyle(child).display.startsWith('inline');
    return inline ? words(child) : ` ${words(child)} `;
  }

  function rows(element) {
    const found = element.closest('table') || element.querySelector('table') || element;
    const all = Array.from(found.rows || found.querySelectorAll('[role=row]')).slice(0, 5001);
    const CELLS = '[role=cell],[role=gridcell],[role=columnheader]';
    const cells = (row) => Array.from(row.cells || row.querySelectorAll(CELLS));
    if (!all.length) return null;
    const seen = new Map();
    const names = cells(all[0]).map((cell, place) => {
      const name = collapsed(words(cell)) || `column ${place + 1}`, count = (seen.get(name) || 0) + 1;
      seen.set(name, count);
      return count > 1 ? `${name} ${count}` : name;
    });
    const named = (cell, at) => [names[at] || `column ${at + 1}`, collapsed(words(cell))];
    return all.slice(1).map((row) => Object.fromEntries(cells(row).map(named)));
  }

  function value() {
    if (table) return rows(node);
    if (attribute) return node.getAttribute(attribute);
    return node.matches(FIELDS) ? node.value : collapsed(words(node));
  }

  const said = value(), field = node.control || node;
  const checked = field.checked ?? field.getAttribute('aria-checked') === 'true';
  return said === null ? {missing: true} : {said, holds: field.value ?? null, checked};
}
