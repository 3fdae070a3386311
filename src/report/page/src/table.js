// A table that sorts, filters and shows more. Each column: title, get(row), and kind (number or text);
// text(row) is what is shown, if it is not the value.

import { h, newId } from './dom.js';
import { count } from './format.js';
import { again } from './keep.js';

const STEP = 100;

const shown = (column, row) => (column.text ? column.text(row) : column.get(row));

// Rows without a value are last, whichever way.
function compare(column, down) {
  return (a, b) => {
    const [x, y] = [column.get(a), column.get(b)];
    if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
    if (y === null || y === undefined) return -1;
    const order = column.number ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  };
}

// On a narrow page, a table of many numbers shows the one that it is sorted by, next to the first column.
const narrow = matchMedia('(max-width: 640px)');

export const table = (options) => again(`table ${options.label}`, () => made(options), (known) => known.update(options)).element;

function made({ label, columns, rows, sort = null, filter = rows.length > 12, first = 20, most = Infinity }) {
  const state = { by: sort, down: true, text: '', limit: first };
  const id = newId('table');
  const body = h('tbody');
  const status = h('p', { class: 'count', role: 'status' });
  const more = h('button', { type: 'button', class: 'more', onclick: () => grow() }, 'Show more');
  const heads = columns.map((column, i) => head(column, i));
  const headRow = h('tr');
  const many = sort !== null && columns.filter((c) => c.number).length > 2 && columns.length > 4;
  const select = many ? selector() : null;

  function head(column, i) {
    const classes = `${column.number ? 'number' : 'text'} ${column.class || ''}`;
    if (sort === null) return h('th', { scope: 'col', class: classes, title: column.help }, column.title);
    const button = h('button', { type: 'button', title: column.help, onclick: () => sortBy(i) }, column.title);
    return h('th', { scope: 'col', class: classes }, button);
  }

  function selector() {
    const list = h('select', { id: `${id}-by`, onchange: (event) => sortBy(Number(event.target.value), true) },
      columns.map((column, i) => column.number && h('option', { value: i }, column.title)));
    return list;
  }

  function sortBy(i, keep) {
    state.down = state.by === i && !keep ? !state.down : Boolean(columns[i].number);
    state.by = i;
    draw();
  }

  function grow() {
    const before = body.children.length;
    state.limit += STEP;
    draw();
    const next = body.children[before];
    if (more.hidden && next) {
      next.tabIndex = -1;
      next.focus();
    }
  }

  function arranged() {
    const all = columns.map((_, i) => i);
    if (!narrow.matches || state.by === null || columns.length < 4) return all;
    const others = all.filter((i) => i > 0 && i !== state.by && !(many && columns[i].number));
    return [0, ...all.filter((i) => i === state.by && i > 0), ...others];
  }

  const matches = (row) =>
    columns.some((column) => !column.number && String(shown(column, row) ?? '').toLowerCase().includes(state.text));

  function cell(column, row, largest, isSorted) {
    const value = shown(column, row);
    const classes = [column.number ? 'number' : 'text', column.class, column.code && 'code', isSorted && 'sorted'];
    const td = h('td', { class: classes.filter(Boolean).join(' ') }, column.node ? column.node(row) : value ?? '');
    if (isSorted && column.number && largest > 0 && column.get(row) > 0) {
      td.style.setProperty('--share', `${(100 * column.get(row)) / largest}%`);
    }
    return td;
  }

  function draw() {
    const found = state.text ? rows.filter(matches) : rows;
    const by = state.by === null ? null : columns[state.by];
    const sorted = (by ? [...found].sort(compare(by, state.down)) : found).slice(0, most);
    const some = sorted.slice(0, state.limit);
    const largest = by && by.number ? Math.max(0, ...sorted.map((row) => by.get(row) ?? 0)) : 0;
    const order = arranged();
    if (order.join() !== state.order) {
      const focused = document.activeElement; // what is moved in the page loses it
      headRow.replaceChildren(...order.map((i) => heads[i]));
      if (headRow.contains(focused)) focused.focus();
    }
    state.order = order.join();
    body.replaceChildren(...some.map((row) =>
      h('tr', {}, order.map((i) => cell(columns[i], row, largest, i === state.by)))));
    heads.forEach((th, i) => {
      th.classList.toggle('sorted', i === state.by);
      if (i === state.by) th.setAttribute('aria-sort', state.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    if (select) select.value = String(state.by);
    more.hidden = some.length >= sorted.length;
    status.textContent = some.length === rows.length ? '' : `${count(some.length)} of ${count(rows.length)} rows`;
  }

  const search = filter && h('input', {
    id: `${id}-filter`, type: 'search', autocomplete: 'off', spellcheck: 'false',
    oninput: (event) => {
      state.text = event.target.value.trim().toLowerCase();
      draw();
    },
  });
  const tools = (search || select) && h('div', { class: 'tools' },
    search && h('div', {}, h('label', { for: `${id}-filter` }, 'Filter'), search),
    select && h('div', { class: 'narrow' }, h('label', { for: `${id}-by` }, 'Sort by'), select));
  draw();
  narrow.addEventListener('change', draw);

  function update(options) {
    ({ columns, rows } = options);
    draw();
  }

  return { update, element: h('div', { class: columns.length <= 4 && !columns.some((c) => c.code || c.class) ? 'table small' : 'table' }, tools,
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Table: ${label}` },
      h('table', {}, h('caption', { class: 'hidden' }, label), h('thead', {}, headRow), body)),
    h('div', { class: 'foot' }, status, more)) };
}
