// Processes by application, and in it by initial call: an area is memory, and the stronger its
// colour, the more of it has each process.

import { hierarchy, treemap as layout, treemapSquarify } from 'd3-hierarchy';
import { drawn, fits, h, s } from './dom.js';
import { bytes, count, someProcesses } from './format.js';

const HEAD = 19;

export function byApplication(rows) {
  const applications = new Map();
  for (const [application, call, groups, processes, memory] of rows) {
    const name = application ?? 'no application';
    if (!applications.has(name)) applications.set(name, { name, children: [] });
    applications.get(name).children.push({
      name: call ?? (groups > 1 ? `${count(groups)} other initial calls` : 'unknown'), processes, bytes: memory,
    });
  }
  return { name: 'all', children: [...applications.values()] };
}

const step = (node, least, most) => {
  const each = Math.log(node.bytes / Math.max(1, node.processes) + 1);
  return most > least ? Math.round((4 * (each - least)) / (most - least)) : 2;
};

export function treemap({ rows, label }) {
  const tree = byApplication(rows);
  const root = hierarchy(tree).sum((d) => d.bytes || 0).sort((a, b) => b.value - a.value);
  const logs = root.leaves().map((leaf) => Math.log(leaf.data.bytes / Math.max(1, leaf.data.processes) + 1));
  const [least, most] = [Math.min(...logs), Math.max(...logs)];
  const said = h('p', { class: 'said' }, 'Point at an area to see its numbers; the table below has all of them.');

  function tell(leaf) {
    said.replaceChildren(h('b', {}, bytes(leaf.data.bytes)), `  ${someProcesses(leaf.data.processes)} of `,
      h('span', { class: 'code' }, leaf.data.name), ` in ${leaf.parent.data.name}`);
  }

  const box = drawn('treemap', (element, width) => {
    const height = Math.round(Math.min(440, Math.max(320, width * 0.45)));
    layout().size([width, height]).paddingInner(1).paddingOuter(0).paddingTop((node) => (node.depth === 1 ? HEAD : 0))
      .tile(treemapSquarify.ratio(1.4)).round(true)(root);
    const parts = [];
    for (const application of root.children || []) {
      const [x, y, w] = [application.x0, application.y0, application.x1 - application.x0];
      if (application.y1 - y > HEAD && w > 30) {
        parts.push(s('text', { class: 'heading', x: x + 1, y: y + 14 },
          fits(`${application.data.name}  ${bytes(application.value)}`, w - 6)));
      }
    }
    for (const leaf of root.leaves()) {
      const [w, high] = [leaf.x1 - leaf.x0, leaf.y1 - leaf.y0];
      if (w < 1 || high < 1) continue;
      parts.push(s('g', { class: 'cell', transform: `translate(${leaf.x0},${leaf.y0})`, 'data-bytes': leaf.data.bytes,
        onpointerenter: () => tell(leaf), onclick: () => tell(leaf) },
      s('rect', { width: w, height: high, class: `tone-${step(leaf.data, least, most)}` }),
      high > 17 && s('text', { x: 5, y: 14 }, fits(leaf.data.name, w - 8)),
      high > 33 && s('text', { x: 5, y: 29, class: 'small' }, fits(`${bytes(leaf.data.bytes)} · ${count(leaf.data.processes)}`, w - 8))));
    }
    element.replaceChildren(s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label }, parts));
  });
  return h('div', {}, box, said);
}
