// The history of one number as a line. The scale is from its least to its largest value, which are written
// beside it.

import { scaleLinear, scaleUtc } from 'd3-scale';
import { line as path } from 'd3-shape';
import { drawn, h, s } from './dom.js';
import { clock } from './format.js';

const HEIGHT = 92;
const [TOP, BOTTOM] = [8, 18];
const CHAR = 6.7;             // pixels, at most, of a character of a tick
const GAP = 6;                // between two ticks

// How many ticks there are is only a hint to d3: those that would touch the one before are left out.
function apart(ticks) {
  let end = -Infinity;
  return ticks.filter(({ at, label }) => {
    const half = (label.length * CHAR) / 2;
    if (at - half < end + GAP) return false;
    end = at + half;
    return true;
  });
}

// A figure, and a function that shows other values in it.
export function line({ title, format, marks = [] }) {
  let [times, points, numbers] = [[], [], []];
  let redraw = () => {};
  const now = h('b');
  const range = h('p', { class: 'range' });
  const box = drawn('line', (element, width) => {
    redraw = () => draw(element, width);
    redraw();
  });

  function draw(element, width) {
    if (numbers.length === 0) return;
    const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
    const label = `${title}: from ${format(numbers[0])} to ${format(numbers[numbers.length - 1])}, least ${format(least)}, largest ${format(most)}`;
    const x = scaleUtc([times[0], times[times.length - 1]], [1, width - 1]);
    const pad = most > least ? 0 : Math.max(1, most * 0.05);
    const y = scaleLinear([least - pad, most + pad], [HEIGHT - BOTTOM, TOP]);
    const ticks = x.ticks(Math.max(2, Math.floor(width / 90))).filter((t) => x(t) > 28 && x(t) < width - 28)
      .map((t) => ({ at: x(t), label: clock(t.getTime(), times[times.length - 1] - times[0]) }));
    element.replaceChildren(s('svg', { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': label },
      s('line', { class: 'axis', x1: 0, x2: width, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      apart(ticks).map(({ at, label }) => s('text', { class: 'tick', x: at, y: HEIGHT - 4, 'text-anchor': 'middle' }, label)),
      s('path', { class: 'value', d: path().x(([t]) => x(t)).y(([, value]) => y(value))(points), 'data-values': numbers.length }),
      marks.map((mark) => [
        s('line', { class: 'mark', x1: x(mark.at), x2: x(mark.at), y1: TOP - 8, y2: HEIGHT - BOTTOM }),
        s('path', { class: 'mark', d: `M${x(mark.at) - 4},0h8l-4,7z` })])));
  }

  function show(at, values) {
    times = at;
    points = values.map((value, i) => [times[i], value]).filter(([, value]) => value !== null);
    numbers = points.map(([, value]) => value);
    const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
    now.textContent = numbers.length === 0 ? '' : format(numbers[numbers.length - 1]);
    range.textContent = numbers.length === 0 ? 'not known yet' : least === most ? 'always the same' : `${format(least)} – ${format(most)}`;
    redraw();
  }

  return { show, figure: h('figure', { class: 'history' }, h('figcaption', {}, h('span', {}, title), now), box, range) };
}

export function history({ times, values, ...more }) {
  const { figure, show } = line(more);
  show(times, values);
  return figure;
}
