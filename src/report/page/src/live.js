// The live page: it asks for what is new at each interval, and draws it into what is there already, so that
// the order of a table, its filter and the focus stay.

import { fact } from './facts.js';
import { h } from './dom.js';
import { bytes, count, duration, percent, time, words } from './format.js';
import { keep } from './keep.js';
import { line } from './lines.js';
import { allocators, binaries, busy, diagnosis, groups, ports, processes, stacks, tables, waits } from './sections.js';
import { table } from './table.js';
import { short, TITLES } from './titles.js';

const MOST = 600;             // points on a line
const PATIENCE = 20000;       // milliseconds, for one answer
const KINDS = ['total', 'processes', 'binary', 'ets', 'code', 'atom'];

const mean = (shares) => shares.reduce((a, b) => a + b, 0) / shares.length;
const each = (format) => (n) => `${format(n)}/s`;

// What each line shows of a point.
const LINES = [
  ...KINDS.map((kind) => [kind === 'total' ? 'memory' : `memory of ${words(kind)}`, (point) => point.memory[kind], bytes]),
  ['schedulers busy', (point) => point.usage && mean(online(point.usage)), percent],
  ['run queue', (point) => point.run_queue, count],
  ['reductions', (point) => point.reductions, each(count)],
  ['collections', (point) => point.collections, each(count)],
  ['input', (point) => point.input, each(bytes)],
  ['output', (point) => point.output, each(bytes)],
  ...['processes', 'ports', 'tables'].map((kind) => [kind, (point) => point.counts[kind], count]),
];

const PARTS = { diagnosis, groups, processes, busy, waits, stacks, binaries, tables, ports, allocators };

const state = { after: 0, points: [], about: null, parts: {}, paused: false, timer: null };
keep();

// Nodes that are the same stay where they are: what is taken out of a page loses the focus.
function put(parent, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== false && child !== null && child !== undefined);
  for (const there of [...parent.childNodes]) if (!wanted.includes(there)) there.remove();
  wanted.forEach((child, i) => {
    if (parent.childNodes[i] !== child) parent.insertBefore(child, parent.childNodes[i] ?? null);
  });
}

const online = (usage) => usage.slice(0, state.about?.online ?? usage.length);

// ---- the page

const title = h('h1', {}, 'sonde');
const told = h('p', { role: 'status' }, 'Waiting for the first sample.');
const pause = h('button', { type: 'button', onclick: () => halt(!state.paused) }, 'Pause');
const where = h('p', { class: 'dim' });
const facts = h('dl', { class: 'facts' });
const cores = h('ul', { class: 'cores' });
const lines = LINES.map(([name, get, format]) => ({ get, ...line({ title: name, format }) }));
const boxes = Object.fromEntries(Object.keys(PARTS).map((part) => [part, h('div', {}, h('p', { class: 'note' }, 'Not sampled yet.'))]));
const costs = h('div');

const section = (id, ...content) => h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, TITLES[id]), content);
const places = ['now', 'cores', ...Object.keys(PARTS), 'cost'];

document.getElementById('page').replaceWith(
  h('a', { class: 'skip', href: '#main' }, 'Skip to the numbers'),
  h('header', {}, h('div', { class: 'bar' }, title, h('div', { class: 'state' }, told, pause)), where, facts),
  h('nav', { 'aria-label': 'Sections' }, h('ul', {}, places.map((id) => h('li', {}, h('a', { href: `#${id}` }, short(id)))))),
  h('main', { id: 'main', tabindex: -1 },
    section('now', h('div', { class: 'histories' }, lines.map(({ figure }) => figure))),
    section('cores', cores),
    Object.keys(PARTS).map((part) => section(part, boxes[part])),
    section('cost', costs)));

// ---- an answer

function took(answer) {
  state.about = answer.about;
  state.interval = answer.interval;
  state.after = answer.number;
  state.points = [...state.points, ...answer.points].slice(-MOST);
  Object.assign(state.parts, answer.parts);
  if (state.points.length > 0) draw(Object.keys(answer.parts));
}

function draw(changed) {
  const { about, points } = state;
  const last = points[points.length - 1];
  document.title = `${about.node} – sonde`;
  if (title.textContent !== about.node) title.textContent = about.node;
  where.textContent = [`${time(last.at)} UTC`, `OTP ${about.otp}, ${about.emulator}`, `up ${duration(about.up_ms + last.at - about.at)}`, about.system,
    about.native === 'native' ? 'read natively' : `portable path: ${about.native}`].join(' · ');
  overview(last);
  const times = points.map((point) => point.at);
  for (const { get, show } of lines) show(times, points.map(get));
  for (const part of changed) put(boxes[part], drawnPart(state.parts[part], PARTS[part]));
  put(costs, cost());
}

function overview({ counts, usage, run_queue: queue, memory, reductions }) {
  put(facts,
    fact('memory', bytes(memory.total ?? 0), ''),
    ['processes', 'ports', 'atoms', 'tables'].map((kind) => fact(kind, count(counts[kind]), `of ${count(state.about.limits[kind])}`, counts[kind] / state.about.limits[kind])),
    usage && fact('schedulers', percent(mean(online(usage))), `busy, of ${online(usage).length}`, mean(online(usage))),
    fact('run queue', count(queue), 'processes and ports'),
    usage && fact('reductions', count(reductions), 'a second'));
  if (!usage) return;
  put(cores, online(usage).map((share, i) => {
    const bar = h('div', { class: 'meter', 'aria-hidden': 'true' }, h('i'));
    bar.firstChild.style.width = `${Math.min(100, 100 * share)}%`;
    return h('li', {}, h('span', {}, `scheduler ${i + 1}`), h('span', {}, percent(share)), bar);
  }));
}

function drawnPart(found, show) {
  if (found.in !== undefined) return h('p', { class: 'note' }, `Not sampled yet: the node is so large that the first comes at ${time(found.at + found.in).slice(11)} UTC.`);
  if (found.failed) return h('p', { class: 'note' }, `Not sampled: ${found.failed}.`);
  return [(found.cut || []).map((text) => h('p', { class: 'note' }, `Not complete: ${text}.`)), show(found.data, state.about)];
}

function cost() {
  const known = Object.entries(state.parts).filter(([, { ms }]) => ms !== undefined).map(([part, { ms, every, at }]) => [TITLES[part], ms, Math.max(every, state.interval), at]);
  return [h('p', { class: 'lead' }, `A point of each line every ${duration(state.interval)}, while somebody looks. A part that takes longer is sampled less often, `,
    'so that all of it stays below 1 % of the time of the processors on average.'),
  known.length > 0 && table({ label: 'What each part costs', sort: null, filter: false, rows: known, columns: [
    { title: 'Part', get: (row) => row[0] }, { title: 'Work', get: (row) => row[1], text: (row) => `${row[1].toFixed(1)} ms`, number: true },
    { title: 'At most every', get: (row) => row[2], text: (row) => duration(row[2]), number: true },
    { title: 'Last at (UTC)', get: (row) => row[3], text: (row) => time(row[3]).slice(11), number: true }] })];
}

// ---- asking

function say(text, lost = false) {
  if (told.textContent !== text) told.textContent = text;
  told.classList.toggle('lost', lost);
}

async function ask() {
  try {
    const answer = await fetch(`data?after=${state.after}`, { cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(answer.status === 404 ? 'the address is no longer valid' : `status ${answer.status}`);
    took(await answer.json());
    say('Live');
  } catch (error) {
    say(`No answer: ${error.name === 'TimeoutError' ? 'it takes too long' : error instanceof TypeError ? 'the page has ended, or the node' : error.message}`, true);
  }
  next();
}

// A page that nobody sees does not ask, so that the node does not sample.
function next() {
  clearTimeout(state.timer);
  if (!state.paused && !document.hidden) state.timer = setTimeout(ask, state.interval ?? 1000);
}

function halt(paused) {
  state.paused = paused;
  pause.textContent = paused ? 'Resume' : 'Pause';
  clearTimeout(state.timer);
  if (paused) say('Paused');
  else ask();
}

document.addEventListener('visibilitychange', () => (document.hidden || state.paused ? clearTimeout(state.timer) : ask()));
ask();
