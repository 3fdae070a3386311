// report_page.mjs MODULES DIR BUILT PAGE [numbers]: checks the reports in DIR in headless Chromium: what is drawn is
// compared with the JSON that it was drawn from; widths, colours, keys, accessibility (axe-core), and that
// nothing runs and nothing is fetched. BUILT and PAGE must be the same file. With `numbers', only what is drawn.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { active, controls, moves, ofHeap, ofStacks, stops, tabTo, unseen } from './report_keys.mjs';
import { bytes, count, findings, marks, processes as largest, sum, suspects, tables, told } from './report_tables.mjs';

const [modules, dir, built, committed, only] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

let [passed, failed] = [0, 0];
function check(name, good, detail = '') {
  if (good) passed += 1; else failed += 1;
  console.log(`  ${good ? 'ok  ' : 'FAIL'}  ${name}${detail === '' ? '' : `: ${String(detail).slice(0, 400)}`}`);
}
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
// As WCAG has it.
const luminance = (rgb) => {
  const [red, green, blue] = rgb.match(/[0-9.]+/g).slice(0, 3).map((n) => n / 255).map((n) => (n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

// A report, and where its JSON is.
function opened(name) {
  const raw = readFileSync(`${dir}/${name}`, 'utf8');
  const [start, end] = [raw.indexOf('id="data">') + 10, raw.lastIndexOf('</script>\n<script>')];
  return { raw, start, end, data: JSON.parse(raw.slice(start, end)) };
}

check('priv/report.html is what src/report/page builds (make report-bundle)',
  readFileSync(built).equals(readFileSync(committed)));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });

async function open(name, width, colorScheme, more = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, ...more });
  const page = await context.newPage();
  const seen = { errors: [], requests: [], dialogs: 0 };
  page.on('pageerror', (error) => seen.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') seen.errors.push(message.text()); });
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('dialog', (dialog) => { seen.dialogs += 1; dialog.dismiss(); });
  await page.goto(`file://${dir}/${name}`);
  await page.waitForFunction(() => document.querySelectorAll('main section').length > 10);
  await page.waitForTimeout(150);
  return { page, context, seen, data: JSON.parse(await page.textContent('#data')) };
}

// ---- the numbers

async function numbers() {
  console.log('\nwhat is drawn is what the JSON has (1280 pixels)');
  const { page, context, seen, data } = await open('native.html', 1280, 'light');
  const of = (name) => data.sections[name].data;
  check('no error, no dialog', seen.errors.length === 0 && seen.dialogs === 0, seen.errors.join(' | '));
  check('nothing but the file is fetched', seen.requests.length === 1 && seen.requests[0].startsWith('file:'), seen.requests.join(' '));
  check('a node with 10,000 processes', of('diagnosis').counts[0][1] >= 10000, of('diagnosis').counts[0][1]);
  check('the file has less than 2 MB', readFileSync(`${dir}/native.html`).length < 2e6, readFileSync(`${dir}/native.html`).length);

  const facts = await page.$$eval('.fact', (all) => all.map((f) => [f.querySelector('dt').textContent, f.querySelector('b').textContent]));
  check('facts', of('diagnosis').counts.every(([name, n]) => facts.some(([t, v]) => t === name && v === count(n))), facts.join(' '));

  await everything(page, data);
  await treemap(page, of('groups').rows);

  const circles = await page.$$eval('#waits circle', (all) => all.map((c) => Number(c.dataset.waiters)));
  check('the graph has each process that others wait for',
    same([...circles].sort(), of('waits').rows.map((row) => row.waiters).sort()), `${circles.length} circles`);
  const labels = await page.$$eval('#waits svg text', (all) => all.map((t) => t.textContent));
  check('the graph names them', of('waits').rows.every((row) => labels.some((l) => l.includes(row.named))));
  check('the deadlock is drawn', (await page.$$('#waits .edge.circle')).length === 1 && labels.filter((l) => l.endsWith('deadlock')).length === 2);

  const heaps = await page.$$('#heaps .icicle');
  check('three heaps', heaps.length === 3 && of('heaps').processes.length === 3, heaps.length);
  for (const [i, heap] of heaps.entries()) await icicle(heap, `heap ${i + 1}`, of('heaps').processes[i].tree.bytes);
  const stacks = await page.$('#stacks .icicle');
  await icicle(stacks, 'stacks', sum(of('stacks').rows.map(([n]) => n)));
  check('all processes are in the stacks', sum(of('stacks').rows.map(([n]) => n)) >= 10000);

  console.log('\nnames are text');
  for (const more of await page.$$('.more')) if (await more.isVisible()) await more.click();
  const text = await page.textContent('main');
  check('a process and a table with a name of markup are shown', text.includes('</script><script>document.title="run"</script>')
    && text.includes('<img src=x onerror=alert(1)>'));
  check('nothing of them is an element', (await page.$$('script')).length === 2 && (await page.$$('img')).length === 0);
  check('nothing of them ran', (await page.title()) === `${data.node} – sonde report`, await page.title());
  const raw = readFileSync(`${dir}/native.html`, 'utf8');
  check('no < is in the JSON', !raw.slice(raw.indexOf('id="data">') + 10, raw.lastIndexOf('</script>\n<script>')).includes('<'));
  const blocked = await page.evaluate(() => {
    const script = document.createElement('script');
    try { script.textContent = 'window.ran = true'; document.body.append(script); } catch { return true; }
    return window.ran !== true;
  });
  check('the policy forbids another script', blocked);
  await context.close();
}

const cells = (page, selector, n) => page.$eval(selector, (table, n_) =>
  [...table.querySelectorAll('tbody tr')].map((tr) => [...tr.children].slice(0, n_).map((td) => td.textContent)), n);

async function treemap(page, rows) {
  const drawn = await page.$$eval('.treemap .cell', (all) => all.map((g) => {
    const rect = g.querySelector('rect');
    return [Number(g.dataset.bytes), Number(rect.getAttribute('width')) * Number(rect.getAttribute('height'))];
  }));
  const all = rows.map((row) => row[4]);
  check('the treemap has the groups, and almost all memory', drawn.every(([n]) => all.includes(n))
    && sum(drawn.map(([n]) => n)) >= 0.98 * sum(all), `${drawn.length} of ${rows.length} areas`);
  const large = drawn.filter(([n]) => n > 0.02 * sum(all)).map(([n, area]) => area / n);
  check('its areas are in proportion', Math.max(...large) / Math.min(...large) < 1.2, large.map((r) => r.toFixed(4)).join(' '));
  await areas(page, rows);
}

// What is said of each area that the mouse is on, which names its row, and its tone: the bytes of each process on a
// scale of logarithms, in five steps.
async function areas(page, rows) {
  const said = page.locator('#groups .said');
  await page.mouse.move(0, 0);
  check('the treemap says how to see its numbers', (await said.textContent()).startsWith('Point at an area'), await said.textContent());
  const each = (row) => Math.log(row[4] / Math.max(1, row[3]) + 1);
  const [least, most] = [Math.min(...rows.map(each)), Math.max(...rows.map(each))];
  const tone = (row) => (most > least ? Math.round((4 * (each(row) - least)) / (most - least)) : 2);
  const text = ([app, call, others, n, memory]) => `${bytes(memory)}  ${count(n)} ${n === 1 ? 'process' : 'processes'} of ${
    call ?? (others > 1 ? `${count(others)} other initial calls` : 'unknown')} in ${app ?? 'no application'}`;
  const left = [...rows];
  const [unsaid, tones, found] = [[], [], []];
  for (const cell of await page.$$('.treemap .cell')) {
    await cell.scrollIntoViewIfNeeded();
    const { x, y, width, height } = await cell.$eval('rect', (rect) => rect.getBoundingClientRect().toJSON());
    await page.mouse.move(x + width / 2, y + height / 2);
    const told = await said.textContent();
    const size = Number(await cell.getAttribute('data-bytes'));
    const at = left.findIndex((row) => row[4] === size && text(row) === told);
    if (at < 0) { unsaid.push(`${size}: ${told}`); continue; }
    const [row] = left.splice(at, 1);
    const is = await cell.$eval('rect', (rect) => rect.getAttribute('class'));
    found.push(tone(row));
    if (is !== `tone-${tone(row)}`) tones.push(`${told}: ${is}, not tone-${tone(row)}`);
  }
  check('each area tells its numbers under the mouse', unsaid.length === 0 && found.length > 0, unsaid.join(' | ') || `${found.length} areas`);
  check('its tone is the memory of each process', tones.length === 0 && new Set(found).size > (most > least ? 1 : 0), tones.join(' | ') || found.join(' '));
}

// The tones of areas, from the least: each is further from the ground than the one before.
async function shades(page, name) {
  const colours = await page.evaluate(() => {
    const [svg] = document.querySelectorAll('.treemap svg');
    const rect = svg.appendChild(document.createElementNS(svg.namespaceURI, 'rect'));
    const fills = [0, 1, 2, 3, 4].map((i) => { rect.setAttribute('class', `tone-${i}`); return getComputedStyle(rect).fill; });
    rect.remove();
    return [getComputedStyle(document.body).backgroundColor, ...fills];
  });
  const [ground, ...steps] = colours.map(luminance);
  const away = steps.map((one) => Math.abs(one - ground));
  check(`${name}: the more memory, the further a tone is from the ground`, away.every((one, i) => one > (i > 0 ? away[i - 1] : 0)), colours.join(' '));
}

// All rows of the table with this label, and its heads.
const shown = (page, label) => page.$$eval('main .table', (all, label_) => {
  const box = all.find((one) => one.querySelector('.scroll').getAttribute('aria-label') === `Table: ${label_}`);
  for (const more = box.querySelector('.more'); !more.hidden;) more.click();
  const texts = (cells_) => [...cells_].map((cell) => cell.textContent);
  return { heads: texts(box.querySelectorAll('thead th')), rows: [...box.querySelectorAll('tbody tr')].map((tr) => texts(tr.children)) };
}, label);

// The first cell that differs, or nothing.
function differs(found, expected) {
  if (!same(found.heads, expected.heads)) return `its heads are ${found.heads.join(', ')}`;
  if (found.rows.length !== expected.rows.length) return `${found.rows.length} rows, not ${expected.rows.length}`;
  for (const [i, row] of found.rows.entries()) {
    const at = row.findIndex((cell, k) => cell !== expected.rows[i][k]);
    if (at >= 0 || row.length !== expected.rows[i].length) return `row ${i + 1}, ${expected.heads[at]}: ${row[at]}, not ${expected.rows[i][at]}`;
  }
  return '';
}

// Each cell of each table, the suspects and the history.
async function everything(page, data) {
  const expected = tables(data);
  const labels = await page.$$eval('main .table .scroll', (all) => all.map((one) => one.getAttribute('aria-label').replace('Table: ', '')));
  check('there are the tables that the JSON has', same([...labels].sort(), Object.keys(expected).sort()), labels.join(', '));
  for (const [label, one] of Object.entries(expected)) {
    const wrong = labels.includes(label) ? differs(await shown(page, label), one) : 'there is none';
    check(`each cell of the table: ${label}`, wrong === '', wrong || `${one.rows.length} rows`);
  }
  if (data.sections.processes.data) await processes(page, data);
  if (data.sections.diagnosis.data) await diagnosis(page, data);
  if (data.sections.watcher.data) await watcher(page, data);
  if (data.sections.allocators.data) {
    const { rows } = data.sections.allocators.data;
    const [used, held] = [sum(rows.map((row) => row[2] + row[4])), sum(rows.map((row) => row[3] + row[5]))];
    const lead = await page.textContent('#allocators .lead');
    check('how much of the carriers is used', lead.startsWith(`Blocks take ${bytes(used)} of the ${bytes(held)} that the allocators hold (${((100 * used) / held).toFixed(1)} %). `), lead);
  }
  const notes = await page.$$eval('main > section', (all) => all.map((one) => [one.id, [...one.querySelectorAll(':scope > .note')].map((p) => p.textContent)]));
  const wrong = notes.filter(([name, texts]) => data.sections[name] && !(data.sections[name].cut ?? []).every((text, i) => texts[i] === `Not complete: ${text}.`));
  check('what is not complete is said', wrong.length === 0, wrong.join(' '));
}

async function diagnosis(page, data) {
  const found = await page.$$eval('#diagnosis .suspects > li', (all) => all.map((li) => {
    const [finding, remedy, see] = [...li.querySelectorAll(':scope > p')].map((p) => p.textContent);
    return [finding, [...li.querySelectorAll('.evidence > div')].map((pair) => [...pair.children].map((one) => one.textContent)), remedy, see];
  }));
  const expected = suspects(data);
  const at = expected.findIndex((one, i) => !same(one, found[i]));
  check(`each suspect: its finding, evidence, remedy and call (${expected.length})`, same(found, expected), JSON.stringify(found[Math.max(0, at)] ?? ''));
  const lead = await page.textContent('#diagnosis .lead');
  check('how many suspects there are', lead.startsWith(told(data)), lead);
  const missing = data.sections.diagnosis.data.not_looked_at.map(([what, why]) => `${what} (${why})`).join('; ');
  const note = await page.$$eval('#diagnosis .note', (all) => all.map((p) => p.textContent).filter((text) => text.startsWith('Not looked at')));
  check('what was not looked at', same(note, missing === '' ? [] : [`Not looked at: ${missing}.`]), note);
}

async function watcher(page, data) {
  const { times, series } = data.sections.watcher.data;
  const found = await page.$$eval('#watcher .findings li', (all) => all.map((li) => li.textContent));
  check(`each finding of the watcher (${findings(data).length})`, same(found, findings(data)), found.join(' | '));
  const lines = await page.$$eval('#watcher .history', (all) => all.map((f) => {
    const path = f.querySelector('path.value');
    return { title: f.querySelector('figcaption span').textContent, last: f.querySelector('figcaption b').textContent, range: f.querySelector('.range').textContent,
      n: Number(path.dataset.values), points: path.getAttribute('d').match(/-?[0-9.]+,-?[0-9.]+/g).map((point) => point.split(',').map(Number)),
      width: Number(f.querySelector('svg').getAttribute('width')), bottom: Number(f.querySelector('.axis').getAttribute('y1')),
      marks: [...f.querySelectorAll('line.mark')].map((mark) => Number(mark.getAttribute('x1'))), heads: f.querySelectorAll('path.mark').length };
  }));
  const near = (a, b) => a.length === b.length && a.every((x, i) => Math.abs(x - b[i]) < 0.6);
  const wrong = [];
  const drawn = series.filter(([, , values]) => values.some((n) => n !== null));
  for (const [i, one] of drawn.entries()) {
    const [kind, name, all] = one;
    const values = all.filter((n) => n !== null);
    const show = kind === 'memory' ? bytes : count;
    const title = (kind === 'memory' ? `memory of ${name}` : name).replaceAll('_', ' ');
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const line = lines[i] ?? { points: [], marks: [] };
    const x = (at) => 1 + ((at - times[0]) / (times[times.length - 1] - times[0])) * (line.width - 2);
    const y = (n) => (least === most ? (line.bottom + 8) / 2 : line.bottom - ((n - least) / (most - least)) * (line.bottom - 8));
    const as = { title: line.title === title, last: line.last === show(values[values.length - 1]), number: line.n === values.length,
      range: line.range === (least === most ? 'always the same' : `${show(least)} – ${show(most)}`),
      times: near(line.points.map(([px]) => px), times.filter((_, k) => all[k] !== null).map(x)), values: near(line.points.map(([, py]) => py), values.map(y)),
      marks: near(line.marks, marks(data, one).map(x)) && line.heads === line.marks.length };
    wrong.push(...Object.entries(as).filter(([, good]) => !good).map(([what]) => `${title}: ${what}`));
  }
  check('each line of the history: name, values, range and marks', wrong.length === 0 && lines.length === drawn.length, wrong.join('; ')
    || `${lines.length} lines of ${times.length} samples, ${sum(lines.map((line) => line.marks.length))} marks`);
}

async function processes(page, data) {
  const { attrs, rows } = data.sections.processes.data;
  const wrong = [];
  for (const [i, attr] of attrs.entries()) {
    const head = page.locator('#processes thead th').nth(3 + i).locator('button');
    await head.click();
    if (await page.locator('#processes thead th').nth(3 + i).getAttribute('aria-sort') !== 'descending') await head.click();
    const why = differs(await shown(page, 'Largest processes'), largest(data, attr));
    if (why !== '') wrong.push(`${attr}: ${why}`);
  }
  check(`each cell of the largest ${Math.min(data.top, rows.length)} processes by each of ${attrs.length} attributes`, wrong.length === 0, wrong.join('; '));
  await page.fill('#processes input', 'document.title');
  check('the filter finds a process by its name', (await cells(page, '#processes .table', 1)).length === 1);
  await page.fill('#processes input', '');
}

// No two labels of an axis touch.
async function ticks(page, name) {
  const axes = await page.$$eval('.history svg', (all) => all.map((svg) => [...svg.querySelectorAll('.tick')].map((tick) => {
    const { left, right } = tick.getBoundingClientRect();
    return [left, right, tick.textContent];
  })));
  const touch = axes.flatMap((labels) => labels.filter(([left], i) => i > 0 && left < labels[i - 1][1]).map(([, , text]) => text));
  check(`${name}: no two labels of an axis touch`, axes.some((labels) => labels.length > 1) && touch.length === 0,
    `${sum(axes.map((labels) => labels.length))} labels of ${axes.length} axes, ${touch.length} touch ${touch.slice(0, 3)}`);
}

// ---- content

const MARKUP = '</script><img src=x onerror=alert(1)>';

// What live_page.erl plants in the process live_content, with the policy off: what got into the page could run.
async function content() {
  console.log('\nwith content');
  const planted = ({ sections }) => sections.heaps.data.processes.find(({ named }) => named.endsWith(' live_content'));
  for (const name of ['native.html', 'outside.html', 'portable.html']) {
    const { raw, data } = opened(name);
    const text = JSON.stringify(data.sections);
    const has = [raw.includes('planted_') && 'planted_', text.includes('"preview":') && 'a preview', text.includes('</scr\\"...') && 'a key'].filter(Boolean);
    check(`${name} has nothing of the state of a process`, has.length === 0 && !data.content, has.join(', '));
    if (data.sections.heaps.data) check(`${name} has its heap`, planted(data)?.tree.bytes > 4800000, planted(data)?.tree.bytes);
  }
  const { page, context, data, seen } = await open('content.html', 1280, 'light', { bypassCSP: true });
  const { named, tree } = planted(data);
  await everything(page, data);
  const { rows } = await shown(page, `Objects of ${named}`);
  const isShown = (path, preview) => rows.some((row) => row[0].endsWith(path) && row[4] === preview);
  for (const [what, path, preview] of [
    ['a key', `/ key {'planted_key ${MARKUP}',1}`, '[1,2,3,4,5,6,7,8,9,10,...]'], ['a key that is cut', '/ key "</scr"...', '[1,2,3,4,5,6,7,8,9,10,...]'],
    ['a value', '/ key value', `{'planted_value ${MARKUP}',"<img src=x"}`], ['a message', 'message 1', `{'planted_message ${MARKUP}'}`],
    ['of a binary, how large it is,', '/ key <<51 bytes>>', '<<51 bytes>>']]) {
    check(`${what} is shown as text`, isShown(path, preview), isShown(path, preview) ? `${path}: ${preview}` : rows.map((row) => `${row[0]}: ${row[4]}`).join(' | '));
  }
  check('the bytes of a binary are not there', !opened('content.html').raw.includes('planted_bytes'));
  const heap = page.locator('#heaps .keys').nth(data.sections.heaps.data.processes.findIndex((one) => one.named === named));
  const [state] = tree.children;
  await page.mouse.move(0, 0);
  await heap.focus();
  await page.keyboard.press('ArrowDown');
  const said = () => heap.locator('.said').textContent();
  check('the preview of the state is below its heap', (await said()).endsWith(`${state.kind}  ${state.preview}`) && state.preview.includes(`'planted_value ${MARKUP}'`), await said());
  await page.keyboard.press('ArrowDown');
  for (const { name } of state.children.slice(1)) {
    await page.keyboard.press('ArrowRight');
    if (name.includes('planted_key')) break;
  }
  await page.keyboard.press('Enter');
  check('a key is in its part', await heap.locator('.cell.selected text').textContent() === `key {'planted_key ${MARKUP}',1}`, await said());
  const [scripts, others] = [await page.$$('script'), await page.$$('img, [onerror], main script')];
  check('nothing of it is an element', scripts.length === 2 && others.length === 0, `${scripts.length} scripts, ${others.length} others`);
  check('nothing of it ran, and nothing was fetched', seen.dialogs === 0 && seen.errors.length === 0 && seen.requests.length === 1
    && (await page.title()) === `${data.node} – sonde report`, [...seen.errors, ...seen.requests].join(' '));
  check('the page says that it has content', (await page.textContent('#about')).includes('It was asked for content'), await page.textContent('#about > p'));
  await context.close();
}

// ---- reports with what a test node does not have

// A copy of a report with other data.
function changed(from, name, change) {
  const { raw, data, start, end } = opened(from);
  change(data);
  writeFileSync(`${dir}/${name}`, raw.slice(0, start) + JSON.stringify(data).replaceAll('<', '\\u003c') + raw.slice(end));
}

function rich({ sections }) {
  const of = (name) => sections[name].data;
  Object.assign(of('diagnosis').grown, { processes: -5000, binary: 123456, ets: 0 });
  of('binaries').holders = [
    { size: 3000000, refc: 14, held_by: 12, elsewhere: 2, holders: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => [`<0.${n}.0> name_${n}`, 1, 0]) },
    { size: 70000, refc: 1, held_by: 0, elsewhere: 1, holders: [] }, { size: 900, refc: 1, held_by: 1, elsewhere: 0, holders: [['<0.9.0>', 1, 900]] }];
  of('binaries').resources = [['some:thing', 3, 1234, 2], ['of the VM', 1, 98765, 1]];
  of('groups').rows.push(['kernel', null, 17, 40, 400000, 5000, 6]);
  of('busy').rows.push(['<0.77777.0>', null, null, null, 41]);
  of('tables').rows.push(['unread', '<0.1.0>', 'bag', 'private', 1234567, 7654321, null]);
  of('ports').rows.push(['#Port<0.99>', 'tcp_inet', '<0.1.0> init', 1000, 2000, 3000000, 4000000]);
  sections.sockets.data = { all: 3, rows: [['<0.2.0>', 'tcp', 'inet', 500, 200, 300], ['<0.3.0> named', 'udp', 'inet6', 70000, 69000, 1000], ['<0.4.0>', 'other', 'local', 0, 0, 0]] };
  of('allocators').rows.push(['some_alloc', 2, 500, 1000, 0, 0]);
  of('processes').rows[3][6] = null;
  const { times, series } = of('watcher');
  const [early, late] = [times[2], times[times.length - 3]];
  series[1][2][0] = null;
  const leak = { event: 'leak', growth: 5, from: 1, hours: 6, count: null, limit: null };
  of('watcher').findings = [
    { ...leak, what: 'memory of binary', at: early, per_hour: 1048576.5 }, { ...leak, what: 'process <0.5.0> name', at: late, per_hour: 5000 },
    { ...leak, what: 'table some', at: early, per_hour: 70000 }, { ...leak, what: 'number of processes', at: late, per_hour: 1234.6 },
    { ...leak, event: 'limit', what: 'number of atoms', at: late, per_hour: null, hours: null, count: 900000, limit: 1048576 },
    { ...leak, what: 'memory of code', at: times[0] - 3600000, per_hour: 100 }];
}

async function made_up() {
  console.log('\nwhat this node does not have');
  changed('native.html', 'rich.html', rich);
  const { page, context, data, seen } = await open('rich.html', 1280, 'light');
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  await everything(page, data);
  await areas(page, data.sections.groups.data.rows);
  await context.close();
  changed('native.html', 'group.html', ({ sections: { groups: { data: found } } }) => found.rows.splice(1));
  const group = await open('group.html', 1280, 'light');
  await treemap(group.page, group.data.sections.groups.data.rows);
  await group.context.close();
  for (const [read, all] of [[0, 500], [1, 500], [1234, 5000], [500, 500], [null, 500]]) {
    changed('outside.html', 'none.html', ({ sections: { diagnosis: { data: found } } }) => Object.assign(found, { suspects: [], read, counts: [['processes', all, 10000, null]] }));
    const none = await open('none.html', 1280, 'light');
    const lead = await none.page.textContent('#diagnosis .lead');
    check(`no suspects, ${read} of ${all} processes were read in full`, lead.startsWith(told(none.data)) && (await none.page.$('#diagnosis .suspects')) === null, lead);
    await none.context.close();
  }
  changed('native.html', 'many.html', ({ sections: { waits: { data: found } } }) => {
    found.rows = [...Array(60).keys()].map((i) => ({ ...found.rows[0], process: `<0.${i}.1>`, named: `<0.${i}.1>`, waits_for: null, deadlock: [] }));
  });
  for (const [name, drawn, says] of [['many.html', 40, true], ['native.html', data.sections.waits.data.rows.length, false]]) {
    const many = await open(name, 1280, 'light');
    check(`${name}: what is not drawn of the waits is said`, (await many.page.$$('#waits circle')).length === drawn
      && (await many.page.textContent('#waits')).includes('The graph shows 40 of 60; the table has all') === says, await many.page.textContent('#waits > p'));
    await many.context.close();
  }
  changed('native.html', 'late.html', ({ sections }) => { sections.diagnosis = { ms: 15000, failed: 'it was not done in time' }; });
  const late = await open('late.html', 1280, 'light');
  const text = await late.page.textContent('#diagnosis');
  check('a diagnosis that was not made says nothing of suspects', text.includes('Not in this report: it was not done in time.') && !text.includes('suspect'), text);
  await late.context.close();
  // d3 has ticks each second, or minute, up to 6.7 of them in three times 90 pixels
  for (const ms of [6650, 399000]) {
    changed('native.html', 'span.html', ({ sections: { watcher: { data: { times } } } }) => times.forEach((_, i) => { times[i] = 1.7e12 + 500 + (i * ms) / (times.length - 1); }));
    for (const width of [370, 390]) {
      const small = await open('span.html', width, 'light');
      await ticks(small.page, `${ms / 1000} s in ${width} pixels`);
      await small.context.close();
    }
  }
}

async function icicle(box, name, total) {
  const width = await box.evaluate((b) => b.clientWidth);
  const parts = await box.$$eval('.cell', (all) => all.map((g) => [Number(g.dataset.bytes), Number(g.querySelector('rect').getAttribute('width')),
    Number(g.dataset.depth)]));
  const wrong = parts.filter(([n, w]) => Math.abs(w + 1 - (n / total) * width) > 1.5);
  check(`${name}: widths are the numbers`, parts[0][0] === total && wrong.length === 0, `${parts.length} parts, total ${total}, ${wrong.slice(0, 2)}`);
}

// ---- keys

const modified = (text) => {
  const [with_, key] = text.split('+');
  return { key, altKey: with_ === 'Alt', ctrlKey: with_ === 'Control', metaKey: with_ === 'Meta', bubbles: true };
};

async function keys(width, scheme) {
  console.log(`\nby keyboard alone, ${width} pixels, ${scheme}`);
  const { page, context, data } = await open('native.html', width, scheme);
  const wide = width > 640;
  const on = () => page.evaluate(() => document.activeElement.outerHTML.slice(0, 120));
  const tab = async (selector) => (await tabTo(page, selector)) !== null;
  const numbers_ = () => page.$$eval('#processes tbody tr', (all) => all.length);
  await page.keyboard.press('Tab');
  check('the first stop skips to the report', (await on()).includes('class="skip"'), await on());
  check('the sections are reached', await tab('nav a'));
  check('the filter is reached', await tab('#processes input'));
  await page.keyboard.type('document.title');
  check('and filters', await numbers_() === 1);
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  check('and ends', await numbers_() === 20);
  if (!wide) await narrow(page, data, tab);
  const column = `#processes thead th:nth-child(${wide ? 6 : 2})`;
  check('a column sorts', await tab(`${column} button`));
  await page.keyboard.press('Enter');
  check('by messages', await page.textContent(column) === 'Messages' && await page.getAttribute(column, 'aria-sort') === (wide ? 'descending' : 'ascending'));
  check('and keeps the focus', await page.evaluate((s) => document.activeElement.matches(s), `${column} button`), await on());
  if (!wide) {
    const last = '#processes thead th:last-child';
    await page.focus(`${last} button`);
    await page.keyboard.press('Enter');
    check('by a text, which comes to another place, and keeps the focus', await page.evaluate(() => document.activeElement.closest('th')?.textContent) === 'Current function'
      && await page.textContent('#processes thead th:nth-child(2)') === 'Current function', await on());
  }
  check('more rows', await tab('#processes .more'));
  const before = await numbers_();
  await page.keyboard.press('Enter');
  const after = await numbers_();
  check('are shown', after > before);
  for (let i = 0; i < 9 && await page.isVisible('#processes .more'); i += 1) await page.keyboard.press('Enter');
  const row = await page.evaluate(() => [...document.querySelectorAll('#processes tbody tr')].indexOf(document.activeElement));
  check('the first of the last ones has the focus', row >= after && unseen(await active(page), luminance) === '', `row ${row + 1}`);
  await page.keyboard.press('Tab');
  check('and what is after them comes next', await page.evaluate(() => document.activeElement.closest('section')?.id) === 'busy', await on());
  check('a heap is reached', await tab('#heaps .keys'));
  const said = () => page.textContent('#heaps .said >> nth=0');
  const first = await said();
  await page.keyboard.press('ArrowDown');
  const second = await said();
  check('arrows move in it', first !== second, second);
  for (const key of ['Alt+ArrowUp', 'Control+ArrowUp', 'Meta+ArrowUp', 'Alt+Home']) await page.dispatchEvent('#heaps .keys >> nth=0', 'keydown', modified(key));
  check('and nothing of the browser does', await said() === second, await said());
  await page.hover('#heaps .icicle >> nth=0 >> .cell >> nth=0');
  check('the mouse says where it is', await said() === first, await said());
  for (const key of ['ArrowUp', 'ArrowDown']) await page.keyboard.press(key);
  await page.waitForTimeout(100);
  check('but not where it rests', await said() === second, await said());
  const widest = () => page.$$eval('#heaps .icicle >> nth=0 >> .cell.selected rect', (all) => Number(all[0].getAttribute('width')));
  const narrower = await widest();
  await page.keyboard.press('Enter');
  const zoomed = await widest();
  check('Enter zooms', zoomed >= narrower && zoomed > (wide ? 1200 : 350), `${narrower} to ${zoomed}`);
  await page.keyboard.press('Escape');
  check('Escape goes back', await said() === first);
  check('what is folded opens', await tab('#heaps summary'));
  await page.keyboard.press('Enter');
  check('with the same as a table', await page.$eval('#heaps details', (d) => d.open));
  check('which is the next stop', await tab('#heaps details :is(input, select, .scroll)') && await page.evaluate(() => document.activeElement.closest('details') === document.querySelector('#heaps details')), await on());
  check('the end is reached', await tab('#about .scroll'));
  await charts(page, data);
  await page.$$eval('details', (all) => all.forEach((d) => { d.open = true; }));
  await walk(page);
  await context.close();
}

// On a narrow page, the number that a table has beside its first column is chosen.
async function narrow(page, data, tab) {
  check('what to sort by is reached', await tab('#processes .narrow select'));
  const chosen = () => page.$eval('#processes .narrow select', (select) => select.selectedOptions[0].textContent);
  for (let i = 0; i < 20 && await chosen() !== 'Messages'; i += 1) await page.keyboard.press('ArrowDown');
  const { heads, rows } = await page.$eval('#processes .table', (table) => ({ heads: [...table.querySelectorAll('th')].map((th) => th.textContent),
    rows: [...table.querySelectorAll('tbody tr')].map((tr) => [...tr.children].slice(0, 2).map((td) => td.textContent)) }));
  const expected = largest(data, 'message_queue_len');
  const at = expected.heads.indexOf('Messages');
  check('and chooses the number that is shown', same(heads, ['Process', 'Messages', 'Initial call', 'Current function']), heads.join(', '));
  check('and sorts by it', rows.length === 20 && same(rows, expected.rows.slice(0, 20).map((row) => [row[0], row[at]])), rows.slice(0, 3).join(' | '));
}

// In each chart that has keys.
async function charts(page, { sections }) {
  const of = [...sections.heaps.data.processes.map(({ tree }, i) => [`heap ${i + 1}`, ofHeap(tree), bytes]),
    ['stacks', ofStacks(sections.stacks.data), (n) => `${count(n)} ${n === 1 ? 'process' : 'processes'}`]];
  check('these charts have keys', (await page.$$('.keys')).length === of.length, of.map(([name]) => name).join(', '));
  const zooms = [];
  await page.keyboard.press('Tab');
  for (const [i, [name, tree, format]] of of.entries()) {
    const before = await tabTo(page, '.keys');
    const here = await active(page);
    check(`${name}: it is the next chart, and is seen`, before && unseen(here, luminance) === '' && await page.evaluate((k) => document.querySelectorAll('.keys')[k] === document.activeElement, i),
      before && (unseen(here, luminance) || here.html));
    if (i === 0) await page.keyboard.press('Home');
    const walked = await moves(page, tree, format);
    check(`${name}: arrows move, Enter zooms, Escape goes back, Home to the start`, walked.wrong.length === 0, walked.wrong.join(' | ') || `${walked.pressed} keys, ${walked.zooms} zooms`);
    zooms.push(walked.zooms);
    check(`${name}: the focus is seen inside`, unseen(await active(page), luminance) === '');
    await page.keyboard.press('Shift+Tab');
    const back = await active(page);
    check(`${name}: Shift+Tab leads back`, back?.number === before?.number, back?.html);
    await page.keyboard.press('Tab');
    check(`${name}: Tab leads to it again, where it was left`, (await active(page))?.number === here.number
      && await page.evaluate(() => document.activeElement.querySelector('.said')?.textContent) === walked.text(walked.leaves));
    await page.keyboard.press('Tab');
    const next = await active(page);
    check(`${name}: Tab leads on`, next !== null && next.number > here.number, next?.html);
    await page.keyboard.press('Shift+Tab');
  }
  check('some part was zoomed that was not as wide', zooms.slice(0, -1).some((n) => n > 0) && zooms[zooms.length - 1] > 0, zooms.join(' '));
  await page.evaluate(() => document.activeElement.blur());
}

// All stops to the end of the page, and back.
async function walk(page) {
  await page.evaluate(() => { document.activeElement.blur(); getSelection().removeAllRanges(); });
  const expected = await controls(page);
  await page.focus('.skip');
  const all = [await active(page), ...await stops(page, 'Tab')];
  const differs_ = (found, as) => found.find(({ number }, i) => number !== as[i])?.html ?? `${found.length} of ${as.length}`;
  const numbers_ = all.map(({ number }) => number);
  check('Tab leads to each control, in order, to the end', same(numbers_, expected), differs_(all, expected));
  const back = await stops(page, 'Shift+Tab');
  check('Shift+Tab leads back to the start', same(back.map(({ number }) => number), [...expected].reverse()), differs_(back, [...expected].reverse()));
  const hidden = [...all, ...back].map((stop) => unseen(stop, luminance)).filter((text) => text !== '');
  check('each stop is seen, there and back', hidden.length === 0, hidden.length === 0 ? `${all.length} stops` : `${hidden.length}: ${hidden.join(' | ')}`);
  const names = await page.$$eval('main > section', (sections) => sections.map(({ id }) => id));
  const links = all.filter(({ href }) => href && href !== '#main').map(({ href }) => href);
  check('the link of each section is a stop', names.length > 10 && same(links, names.map((name) => `#${name}`)), links.join(' '));
  await page.focus('.skip');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  check('what skips leads into the report', await page.evaluate(() => document.activeElement.closest('main > section') === document.querySelector('main :is(a[href], button, input, [tabindex="0"])').closest('section')));
  const astray = [];
  for (const [i, name] of names.entries()) {
    await page.focus(`nav a[href="#${name}"]`);
    await page.keyboard.press('Enter');
    const top = await page.$eval(`#${name} h2`, (h2) => h2.getBoundingClientRect().top - document.querySelector('nav').getBoundingClientRect().bottom);
    if (top < -1 || top > 850) astray.push(`${name} is at ${top}`);
    await page.keyboard.press('Tab');
    const to = await page.evaluate(() => document.activeElement.closest('main > section')?.id);
    const next = await page.$$eval('main > section', (sections, from) => sections.slice(from).find((one) => one.querySelector('a[href], button, input, [tabindex="0"]')).id, i);
    if (to !== next) astray.push(`${name} leads to ${to}, not ${next}`);
  }
  check('each of them leads there', astray.length === 0, astray.join(' | '));
}

async function other_keys(name, width, scheme) {
  console.log(`\n${name} by keyboard alone, ${width} pixels, ${scheme}`);
  const { page, context } = await open(name, width, scheme);
  await page.keyboard.press('Tab');
  const first = await active(page);
  check('the first stop skips to the report', first?.href === '#main', first?.html);
  await walk(page);
  await context.close();
}

// ---- widths, colours, accessibility

async function looks(name, width, scheme) {
  const { page, context, seen } = await open(name, width, scheme, { bypassCSP: true });
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check('nothing is wider than the window', wide === width, `${wide} of ${width}`);
  if (await page.$('.treemap')) await shades(page, name);
  // a second of history may have one label
  if (!['portable.html', 'content.html'].includes(name) && await page.$('.history')) await ticks(page, name);
  const outside = await page.$$eval('h1, h2, h3, main > section > p, .fact, .chart svg', (all) => all
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map((e) => e.outerHTML.slice(0, 80)));
  check('nothing is cut off at the right', outside.length === 0, outside.join(' '));
  const [ground, ink] = await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);
  const light = (rgb) => sum(rgb.match(/[0-9]+/g).slice(0, 3).map(Number)) / 3;
  check(`the ground is ${scheme}`, scheme === 'dark' ? light(ground) < 60 && light(ink) > 180 : light(ground) > 230 && light(ink) < 80, `${ground}, ${ink}`);
  await page.$$eval('details', (all) => all.forEach((d) => { d.open = true; }));
  await page.waitForTimeout(50);
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
  check('axe-core has no serious finding', serious.length === 0 && passes.length > 15, serious.map((v) => `${v.id}: ${v.nodes[0].html}`).join(' ')
    || `${passes.length} rules passed; lesser ones: ${violations.map((v) => v.id).join(' ') || 'none'}`);
  if (process.env.SONDE_SHOTS) {
    await page.$$eval('details', (all) => all.forEach((d) => { d.open = false; }));
    await page.screenshot({ path: `${process.env.SONDE_SHOTS}/${name.replace('.html', '')}-${width}-${scheme}.png`, fullPage: true });
  }
  await context.close();
}

async function portable() {
  console.log('\nwith the native path off');
  const { page, context, data, seen } = await open('portable.html', 1280, 'light');
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  const missing = Object.entries(data.sections).filter(([, s]) => s.failed).map(([name]) => name).sort();
  check('binaries, heaps and waits are missing', same(missing, ['binaries', 'heaps', 'waits']), missing.join(' '));
  for (const name of missing) {
    const text = await page.textContent(`#${name}`);
    check(`the page says why: ${name}`, text.includes('Not in this report') && text.includes('native path is off'), text);
  }
  await everything(page, data);
  check('the others are there', (await cells(page, '#processes .table', 1)).length > 10 && (await page.$$('#stacks .cell')).length > 1);
  await context.close();
}

async function outside() {
  console.log('\nfrom outside');
  const { page, context, data, seen } = await open('outside.html', 1280, 'light');
  const of = (name) => data.sections[name].data;
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  const missing = Object.entries(data.sections).filter(([, s]) => s.failed).map(([name]) => name).sort();
  check('what only the node can say is missing', same(missing, ['allocators', 'ports', 'sockets', 'tables', 'watcher']), missing.join(' '));
  for (const name of missing) {
    const text = await page.textContent(`#${name}`);
    check(`the page says why: ${name}`, text.includes('Not in this report') && text.includes('from outside'), text);
  }
  for (const [name, why] of [['memory', 'only that of processes'], ['binaries', 'hold the largest binaries'], ['groups', 'which application']]) {
    const text = await page.textContent(`#${name}`);
    check(`the page says what is not complete: ${name}`, text.includes('Not complete') && text.includes(why), text.slice(0, 200));
  }
  const drawn = await page.$$eval('section', (all) => all.filter((e) => e.textContent.includes('could not be drawn')).map((e) => e.id));
  check('each section is drawn', drawn.length === 0, drawn.join(' '));
  check('it says that it was read from outside', (await page.textContent('header')).includes('read from outside') && (await page.textContent('h1')) === 'process 1');
  check('and on which machine', data.host.length > 0 && (await page.textContent('header p')).endsWith(` · on ${data.host}`), await page.textContent('header p'));
  const calls = of('diagnosis').suspects.map(({ see }) => see);
  check('the calls are typed as commands', calls.length > 0 && calls.every((call) => call.startsWith('sonde --pid 1 ')), calls.join('; '));
  check('memory of processes', (await page.textContent('#memory')).includes(bytes(of('diagnosis').memory.processes)));
  await treemap(page, of('groups').rows);
  await everything(page, data);
  const heaps = await page.$$('#heaps .icicle');
  const failed = of('heaps').processes.filter(({ tree }) => !tree).map(({ named, why, failed: because }) => `${named} (${why}): ${because}`);
  check('three heaps', heaps.length === 3 && of('heaps').processes.length === 3, failed.join('; ') || heaps.length);
  for (const [i, heap] of heaps.entries()) await icicle(heap, `heap ${i + 1}`, of('heaps').processes[i].tree.bytes);
  await icicle(await page.$('#stacks .icicle'), 'stacks', sum(of('stacks').rows.map(([n]) => n)));
  check('the graph of waits', (await page.$$('#waits circle')).length === of('waits').rows.length);
  check('nothing of a name ran', (await page.title()) === `${data.node} – sonde report` && (await page.$$('script')).length === 2);
  await context.close();
}

async function appearance() {
  await keys(1280, 'light');
  await keys(390, 'dark');
  await other_keys('outside.html', 1280, 'light');
  await other_keys('portable.html', 390, 'dark');
  for (const width of [1280, 390]) {
    for (const scheme of ['light', 'dark']) {
      console.log(`\n${width} pixels, ${scheme}`);
      await looks('native.html', width, scheme);
    }
  }
  for (const [name, width, scheme] of [['outside.html', 390, 'light'], ['outside.html', 390, 'dark'], ['rich.html', 1280, 'light'], ['rich.html', 390, 'dark'],
    ['portable.html', 390, 'light'], ['portable.html', 1280, 'dark'], ['many.html', 390, 'light'], ['content.html', 1280, 'light'], ['content.html', 390, 'dark']]) {
    console.log(`\n${name}, ${width} pixels, ${scheme}`);
    await looks(name, width, scheme);
  }
}

try {
  await numbers();
  await content();
  await made_up();
  await outside();
  await portable();
  if (only !== 'numbers') await appearance();
} catch (error) {
  check('the checks ran to their end', false, error.stack);
}
await browser.close();
console.log(`\nreport: ${passed} checks passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
