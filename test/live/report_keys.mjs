// Keys for report_page.mjs: all stops of Tab, how each is seen, and the moves in a chart. What is wrong is returned as text.

import { count, percent } from './report_tables.mjs';

// In the page: the element that has the focus, by its number, and how it is seen. Nothing if none has it.
function look() {
  const active = document.activeElement;
  if (active === document.body) return null;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(active);
  const within = ([left, top, right, bottom], box) => [Math.max(left, box.left), Math.max(top, box.top), Math.min(right, box.right), Math.min(bottom, box.bottom)];
  const nav = document.querySelector('nav');
  const window_ = { left: 0, right: innerWidth, bottom: innerHeight, top: nav.contains(active) || active.matches('.skip') ? 0 : nav.getBoundingClientRect().bottom };
  const scrolls = active.parentElement.closest('.scroll, nav ul');
  const boxes = [window_, scrolls && scrolls.getBoundingClientRect()].filter(Boolean);
  const { left, top, right, bottom } = active.getBoundingClientRect();
  const [x0, y0, x1, y1] = boxes.reduce(within, [left, top, right, bottom]);
  return {
    number: [...document.querySelectorAll('*')].indexOf(active), html: active.outerHTML.slice(0, 90), href: active.getAttribute('href'),
    outline: outlineStyle === 'none' ? 0 : parseFloat(outlineWidth), colours: [outlineColor, getComputedStyle(document.body).backgroundColor],
    seen: x1 - x0 > 1 && y1 - y0 > 1,
  };
}

export const active = (page) => page.evaluate(look);

// The stops of Tab, or of Shift+Tab, until the page is left. Sometimes the browser has no stop of its own, then the first comes again.
export async function stops(page, key, most = 1000) {
  const found = [];
  while (found.length < most) {
    await page.keyboard.press(key);
    const stop = await active(page);
    if (stop === null || stop.number === found[0]?.number) break;
    found.push(stop);
  }
  return found;
}

// The numbers of the elements that must be stops, in their order.
export const controls = (page) => page.evaluate(() => {
  const all = [...document.querySelectorAll('*')];
  return [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter((one) => one.checkVisibility()).map((one) => all.indexOf(one));
});

// A stop is seen if it is in the window, not below the links of the sections, and has an outline that differs from the ground.
export function unseen(stop, luminance) {
  const [light, dark] = stop.colours.map(luminance).sort((a, b) => b - a);
  if (!(stop.outline >= 1 && (light + 0.05) / (dark + 0.05) >= 3)) return `no outline: ${stop.html}`;
  return stop.seen ? '' : `not in the window: ${stop.html}`;
}

// Presses Tab until the focus is on such an element: the stop before it, or nothing.
export async function tabTo(page, selector, most = 400) {
  for (let i = 0; i < most; i += 1) {
    const before = await active(page);
    await page.keyboard.press('Tab');
    if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return before ?? { number: -1 };
  }
  return null;
}

// The trees that the charts must show: of a heap, and of stacks.
export const ofHeap = ({ name, bytes: n, kind, preview, children }) => ({ name, n, children: children.map(ofHeap),
  more: `${kind ? `  ${kind}` : ''}${preview ? `  ${preview}` : ''}` });

export function ofStacks({ calls, rows }) {
  const root = { name: 'all processes', n: 0, children: [], more: '' };
  for (const [n, stack] of rows) {
    let node = root;
    node.n += n;
    for (const name of stack.length > 0 ? stack.map((i) => calls[i]) : ['(hibernated: no stack)']) {
      let next = node.children.find((child) => child.name === name);
      if (!next) node.children.push(next = { name, n: 0, children: [], more: '' });
      next.n += n;
      node = next;
    }
  }
  return root;
}

// In the page: the text below the chart that has the focus, and the part of it that is selected.
function chart() {
  const box = document.activeElement;
  const cells = [...box.querySelectorAll('.cell.selected rect')].map((rect) => ({ width: Number(rect.getAttribute('width')),
    stroke: getComputedStyle(rect).stroke, fill: getComputedStyle(rect).fill }));
  return { inside: box.matches('.keys'), said: box.querySelector('.said')?.textContent, cells, width: box.querySelector('.chart')?.clientWidth };
}

// Walks in the chart that has the focus: to the largest part of each part, back, along the parts beside it, zooms in and out.
export async function moves(page, root, format = count) {
  const wrong = [];
  let [pressed, zooms] = [0, 0];
  const text = (node) => `${format(node.n)} ${percent(node.n / root.n)}  ${node.name}${node.more}`;
  // `of': the part that has the whole width
  const at = async (key, node, of) => {
    if (key) await page.keyboard.press(key);
    pressed += 1;
    const { inside, said, cells, width } = await page.evaluate(chart);
    const expected = Math.min(width, (node.n / of.n) * width);
    const marked = cells.length === 1 && cells[0].stroke !== 'none' && cells[0].stroke !== cells[0].fill && Math.abs(cells[0].width + 1 - expected) < 1.5;
    if (!inside) wrong.push(`${key}: the focus is elsewhere`);
    else if (said !== text(node)) wrong.push(`${key}: ${said}, not ${text(node)}`);
    else if (expected >= 3 && !marked) wrong.push(`${key}: ${node.name} is not marked, ${JSON.stringify(cells)}, not ${expected}`);
  };
  const largest = ({ children }) => children.reduce((a, b) => (b.n > a.n ? b : a));

  const way = [root];
  await at(null, root, root);
  while (way[0].children.length > 0) {
    way.unshift(largest(way[0]));
    await at('ArrowDown', way[0], root);
  }
  await at('ArrowDown', way[0], root);
  for (const node of [...way.slice(1), root]) await at('ArrowUp', node, root);

  const down = [...way].reverse();
  const deep = down.findIndex(({ children }) => children.length > 1);
  if (deep >= 0) {
    const { children } = down[deep];
    let i = children.indexOf(down[deep + 1]);
    for (const node of down.slice(1, deep + 2)) await at('ArrowDown', node, root);
    for (let k = 0; k < 12; k += 1) await at('ArrowRight', children[i = Math.min(i + 1, children.length - 1)], root);
    for (let k = 0; k < 13; k += 1) await at('ArrowLeft', children[i = Math.max(i - 1, 0)], root);
    // what is beside a part that has the whole width is not in the chart: the part above is shown, then
    await at('Enter', children[i], children[i]);
    await at(i + 1 < children.length ? 'ArrowRight' : 'ArrowLeft', children[i + 1 < children.length ? i + 1 : i - 1], down[deep]);
    await at('Home', root, root);
    zooms += children[i].n < root.n;
  }
  for (const node of down.slice(1)) await at('ArrowDown', node, root);
  await at('Enter', way[0], way[0]);
  zooms += way[0].n < root.n;
  for (const node of [...way.slice(1), root]) await at('Escape', node, node);
  await at('ArrowDown', down[1] ?? root, root);
  await at('Enter', down[1] ?? root, down[1] ?? root);
  return { wrong, pressed, zooms, leaves: down[1] ?? root, text };
}
