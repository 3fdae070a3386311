// A number at the top of a page, with its share of a limit.

import { h } from './dom.js';

export function fact(title, value, more, share) {
  const bar = share === undefined ? null : h('div', { class: 'meter', 'aria-hidden': 'true' }, h('i'));
  if (bar) bar.firstChild.style.width = `${Math.min(100, 100 * share)}%`;
  return h('div', { class: 'fact' }, h('dt', {}, title), h('dd', {}, h('b', {}, value), h('span', {}, more || ''), bar));
}
