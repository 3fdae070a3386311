// Which processes wait for which: one line for each process that others wait for, below the one that it waits for
// itself. A circle is closed by an arc.

import { drawn, fits, s } from './dom.js';
import { count } from './format.js';

const ROW = 30;
const INDENT = 22;
export const MOST = 40;

// Depth first from those that wait for none, then from one process of each circle.
export function ordered(rows) {
  const known = new Map(rows.map((row) => [row.process, row]));
  const below = new Map();
  for (const row of rows) {
    if (known.has(row.waits_for)) below.set(row.waits_for, [...(below.get(row.waits_for) || []), row]);
  }
  const seen = new Set();
  const lines = [];
  const visit = (row, depth, above) => {
    if (seen.has(row.process)) return;
    seen.add(row.process);
    const line = { row, depth, above };
    lines.push(line);
    for (const next of below.get(row.process) || []) visit(next, depth + 1, line);
  };
  rows.filter((row) => !known.has(row.waits_for)).forEach((row) => visit(row, 0, null));
  rows.forEach((row) => visit(row, 0, null));
  return lines;
}

export function graph({ rows, label }) {
  const lines = ordered(rows).slice(0, MOST);
  const at = new Map(lines.map((line, i) => [line.row.process, i]));
  const most = Math.max(1, ...lines.map((line) => line.row.waiters));
  const left = lines.some((line) => line.row.deadlock.length > 0) ? 40 : 12;
  const x = (line) => left + Math.min(line.depth, 12) * INDENT;
  const y = (i) => ROW / 2 + i * ROW;
  return drawn('waits', (element, width) => {
    const height = lines.length * ROW;
    const parts = [];
    lines.forEach((line, i) => {
      if (line.above) {
        const from = at.get(line.above.row.process);
        parts.push(s('path', { class: 'edge', d: `M${x(line.above)},${y(from)}V${y(i)}H${x(line)}` }));
      } else if (at.has(line.row.waits_for)) {
        const to = at.get(line.row.waits_for);
        const [a, b] = [y(i), y(to)];
        parts.push(s('path', { class: 'edge circle', d: `M${left},${a}C${left - 36},${a} ${left - 36},${b} ${x(lines[to])},${b}` }));
      }
    });
    lines.forEach((line, i) => {
      const radius = 3 + 7 * Math.sqrt(line.row.waiters / most);
      const after = line.row.deadlock.length > 0 ? ' · deadlock'
        : line.row.waits_for && !at.has(line.row.waits_for) ? ` · waits for ${line.row.waits_for}` : '';
      const text = `${count(line.row.waiters)} ${line.row.waiters === 1 ? 'waits' : 'wait'} · ${line.row.named}${after}`;
      parts.push(s('circle', { class: line.row.deadlock.length > 0 ? 'node bad' : 'node', cx: x(line), cy: y(i), r: radius.toFixed(1),
        'data-waiters': line.row.waiters }));
      parts.push(s('text', { x: x(line) + 16, y: y(i) + 4 }, fits(text, width - x(line) - 16)));
    });
    element.replaceChildren(s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label }, parts));
  });
}
