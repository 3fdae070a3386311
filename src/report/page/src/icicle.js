// A tree as an icicle: the root is on top, and the width of a part is its value. Arrow keys move, Enter
// zooms, Escape goes back. Where it is kept, what is selected and zoomed to stays, as far as it is still there.

import { hierarchy, partition } from 'd3-hierarchy';
import { drawn, fits, h, s } from './dom.js';
import { percent } from './format.js';
import { again } from './keep.js';

const ROW = 21;
const LEAST = 2; // pixels: what is smaller is seen after zooming, and in the table

export const icicle = (options) => again(`icicle ${options.label}`, () => made(options), (known) => known.update(options.root)).element;

function laid(root) {
  const all = hierarchy(root).sum((d) => d.bytes - (d.children || []).reduce((sum, c) => sum + c.bytes, 0));
  return partition()(all);
}

// The part at the same place of another tree, or the nearest above it.
function moved(node, to) {
  if (!node.parent) return to;
  const above = moved(node.parent, to);
  const found = above.depth === node.depth - 1 && above.children?.find((one) => one.data.name === node.data.name);
  return found || above;
}

function made({ label, root, format, tone }) {
  const said = h('p', { class: 'said', role: 'status' });
  let all = laid(root);
  let focus = all;
  let selected = all;
  let redraw = () => {};

  const box = drawn('icicle', (element, width) => {
    redraw = () => draw(element, width);
    redraw();
  });

  function tell(node) {
    const name = node.data.title || node.data.name;
    const text = h('p', {}, h('b', {}, format(node.data.bytes)), ` ${percent(node.data.bytes / (all.data.bytes || 1))}  `,
      h('span', { class: 'code' }, name), node.data.kind ? `  ${node.data.kind}` : '',
      node.data.preview ? h('span', { class: 'code' }, `  ${node.data.preview}`) : '');
    if (text.textContent !== said.textContent) said.replaceChildren(...text.childNodes);
  }

  function draw(element, width) {
    const scale = width / (focus.x1 - focus.x0 || 1);
    const top = focus.depth;
    const inside = all.descendants().filter((node) =>
      ((node.x1 - node.x0) * scale >= LEAST || node === selected)
      && (isAbove(node, focus) || (node.x0 >= focus.x0 - 1e-9 && node.x1 <= focus.x1 + 1e-9)));
    const height = (1 + Math.max(...inside.map((node) => node.depth))) * ROW;
    const cells = inside.map((node) => {
      const above = node.depth < top;
      const x = above ? 0 : (node.x0 - focus.x0) * scale;
      const w = above ? width : (node.x1 - node.x0) * scale;
      const cell = s('g', { transform: `translate(${x.toFixed(2)},${node.depth * ROW})`,
        class: node === selected ? 'cell selected' : 'cell', 'data-bytes': node.data.bytes, 'data-depth': node.depth,
        onclick: () => zoom(node), onpointermove: () => tell(node) },
      s('rect', { width: Math.max(LEAST, w - 1).toFixed(2), height: ROW - 1, class: above ? 'tone-0' : `tone-${tone(node)}` }),
      s('text', { x: 5, y: 14 }, fits(node.data.name, w - 10)));
      return cell;
    });
    element.replaceChildren(s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, cells));
  }

  const isAbove = (node, other) => other.ancestors().includes(node);

  function zoom(node) {
    selected = node;
    focus = node;
    tell(node);
    redraw();
  }

  function select(node) {
    if (!node) return;
    selected = node;
    if (!isAbove(node, focus) && !isAbove(focus, node)) focus = node.parent;
    tell(node);
    redraw();
  }

  function sibling(node, by) {
    const all_ = node.parent ? node.parent.children : [node];
    return all_[all_.indexOf(node) + by];
  }

  const moves = {
    ArrowDown: () => select(selected.children && largest(selected.children)),
    ArrowUp: () => select(selected.parent),
    ArrowLeft: () => select(sibling(selected, -1)),
    ArrowRight: () => select(sibling(selected, 1)),
    Home: () => zoom(all),
    Enter: () => zoom(selected),
    Escape: () => zoom(focus.parent || all),
  };
  const largest = (nodes) => nodes.reduce((a, b) => (b.value > a.value ? b : a));

  function update(other) {
    all = laid(other);
    focus = moved(focus, all);
    selected = moved(selected, all);
    tell(selected);
    redraw();
  }

  tell(all);
  return { update, element: h('div', { class: 'keys', tabindex: 0, role: 'group',
    'aria-label': `${label}. Arrow keys move, Enter zooms, Escape goes back.`,
    onkeydown: (event) => {
      const move = moves[event.key];
      if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      move();
    } }, box, said) };
}
