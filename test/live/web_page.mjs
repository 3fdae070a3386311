// web_page.mjs MODULES DIR BUILT PAGE: checks the live page, whose address is in DIR/url, in headless Chromium:
// what is drawn is compared with the JSON that came last; it goes on, pauses and ends; widths, colours, keys,
// accessibility (axe-core), and that nothing else is fetched. BUILT and PAGE must be the same file.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const [modules, dir, built, committed] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

let [passed, failed] = [0, 0];
function check(name, good, detail = '') {
  if (good) passed += 1; else failed += 1;
  console.log(`  ${good ? 'ok  ' : 'FAIL'}  ${name}${detail === '' ? '' : `: ${String(detail).slice(0, 400)}`}`);
}

check('priv/live.html is what src/report/page builds (make report-bundle)',
  readFileSync(built).equals(readFileSync(committed)));

for (let i = 0; i < 600 && !existsSync(`${dir}/url`); i += 1) await sleep(100);
const url = readFileSync(`${dir}/url`, 'utf8').trim();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });

const PARTS = ['diagnosis', 'groups', 'processes', 'busy', 'waits', 'stacks', 'binaries', 'tables', 'ports', 'allocators'];
const THERE = PARTS.map((part) => (part === 'diagnosis' ? '#diagnosis .lead' : `#${part} table`));

async function open(width, colorScheme, more = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, ...more });
  const page = await context.newPage();
  const seen = { errors: [], requests: [], dialogs: 0, answers: [], parts: {} };
  page.on('pageerror', (error) => seen.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') seen.errors.push(message.text()); });
  page.on('request', (request) => { if (!request.url().startsWith('data:')) seen.requests.push(request.url()); });
  page.on('dialog', (dialog) => { seen.dialogs += 1; dialog.dismiss(); });
  page.on('response', async (response) => {
    if (!response.url().includes('/data?')) return;
    const answer = await response.json().catch(() => null);
    if (!answer) return;
    seen.answers.push(answer);
    Object.assign(seen.parts, answer.parts);
  });
  await page.goto(url);
  await page.waitForFunction((there) => there.every((one) => document.querySelector(one))
    && Number(document.querySelector('path.value')?.dataset.values) >= 3, THERE, { timeout: 60000 });
  return { page, context, seen };
}

const bytes = (n) => {
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [n / 1024, 0];
  while (size >= 1023.95) { size /= 1024; unit += 1; }
  return `${size.toFixed(1)} ${units[unit]}`;
};
const count = (n) => Math.round(n).toLocaleString('en-US');
const cells = (page, selector, n) => page.$eval(selector, (table, n_) =>
  [...table.querySelectorAll('tbody tr')].map((tr) => [...tr.children].slice(0, n_).map((td) => td.textContent)), n);

// Pauses, so that what is drawn and what came last stay the same.
async function halted({ page }) {
  await page.click('.state button');
  await page.waitForFunction(() => document.querySelector('[role=status]').textContent === 'Paused');
  await page.waitForTimeout(300);
}

async function numbers() {
  console.log('\nwhat is drawn is what the JSON has (1280 pixels)');
  const opened = await open(1280, 'light');
  const { page, context, seen } = opened;
  await halted(opened);
  check('no error, no dialog', seen.errors.length === 0 && seen.dialogs === 0, seen.errors.join(' | '));
  check('nothing is fetched but the page and its data', seen.requests.every((request) => request === url || request.startsWith(`${url}data?after=`)), seen.requests.join(' '));
  const points = seen.answers.flatMap((answer) => answer.points);
  const last = points[points.length - 1];
  check('a node with 10,000 processes', last.counts.processes >= 10000, last.counts.processes);
  check('no point came twice', new Set(points.map((point) => point.at)).size === points.length, points.length);

  const facts = Object.fromEntries(await page.$$eval('.fact', (all) => all.map((f) => [f.querySelector('dt').textContent, f.querySelector('b').textContent])));
  check('facts', facts.memory === bytes(last.memory.total) && ['processes', 'ports', 'atoms', 'tables'].every((kind) => facts[kind] === count(last.counts[kind]))
    && facts['run queue'] === count(last.run_queue) && facts.reductions === count(last.reductions), JSON.stringify(facts));

  const lines = await page.$$eval('.history', (all) => all.map((f) => [f.querySelector('figcaption span').textContent,
    f.querySelector('figcaption b').textContent, Number(f.querySelector('path.value').dataset.values)]));
  const values = { memory: bytes(last.memory.total), 'memory of processes': bytes(last.memory.processes), 'memory of binary': bytes(last.memory.binary),
    'run queue': count(last.run_queue), reductions: `${count(last.reductions)}/s`, collections: `${count(last.collections)}/s`,
    input: `${bytes(last.input)}/s`, processes: count(last.counts.processes) };
  check('each line has the last value', Object.entries(values).every(([title, value]) => lines.some(([t, v]) => t === title && v === value)), lines.map((l) => l.join('=')).join(' '));
  check('and all points', lines.every(([, , n]) => n === points.length || n === points.length - 1), lines.map(([, , n]) => n).join(' '));
  const cores = await page.$$eval('.cores li', (all) => all.map((li) => li.children[1].textContent));
  check('schedulers', cores.join() === last.usage.map((share) => `${(100 * share).toFixed(1)} %`).join(), cores.join(' '));

  const { attrs, rows } = seen.parts.processes.data;
  const shown = await cells(page, '#processes .table', 3 + attrs.length);
  check('the largest processes by memory', attrs[0] === 'memory' && shown.length > 10
    && shown.every((row, i) => row[3] === bytes([...rows].sort((a, b) => b[4] - a[4])[i][4])), shown[0].join(' '));
  const queues = 3 + attrs.indexOf('message_queue_len');
  await page.click(`#processes thead th:nth-child(${queues + 1}) button`);
  check('sorted by messages', await page.getAttribute(`#processes thead th:nth-child(${queues + 1})`, 'aria-sort') === 'descending');
  const busy = await cells(page, '#busy .table', 4);
  check('the process that works is the busiest', busy[0][0].includes('live_web_works'), busy[0].join(' '));
  const tables = await cells(page, '#tables .table', 6);
  const most = [...seen.parts.tables.data.rows].sort((a, b) => b[5] - a[5])[0];
  check('tables: the largest is first', tables[0][5] === bytes(most[5]), tables[0].join(' '));
  check('groups are areas', (await page.$$('.treemap .cell')).length > 0);
  const found = seen.parts.diagnosis.data;
  const suspects = await page.$$eval('#diagnosis .finding', (all) => all.map((p) => p.textContent));
  check('each suspect of the diagnosis', suspects.length > 0 && suspects.join() === found.suspects.map((one) => one.finding).join()
    && suspects.some((text) => text.includes('live_web_grows')), suspects.join(' | '));
  const waiting = seen.parts.waits.data.rows;
  const circles = await page.$$eval('#waits circle', (all) => all.map((c) => Number(c.dataset.waiters)));
  check('the graph has each process that others wait for', circles.includes(7) && [...circles].sort().join() === waiting.map((row) => row.waiters).sort().join(), circles.join(' '));
  const all = seen.parts.stacks.data.rows.reduce((sum, [n]) => sum + n, 0);
  const widths = await page.$$eval('#stacks .cell', (cells_) => cells_.map((g) => [Number(g.dataset.bytes), Number(g.querySelector('rect').getAttribute('width'))]));
  const chart = await page.$eval('#stacks .icicle', (box) => box.clientWidth);
  check('the flame graph has all processes, and its widths are the numbers', all >= 10000 && widths[0][0] === all
    && widths.every(([n, w]) => Math.abs(w + 1 - (n / all) * chart) <= 1.5), `${widths.length} parts, total ${all}`);
  const holders = await cells(page, '#binaries .table >> nth=1', 3);
  check('the largest binary', holders[0][0] === bytes(Math.max(...seen.parts.binaries.data.holders.map((one) => one.size))) && holders[0][0] === bytes(5000000), holders[0].join(' '));
  const costs = await cells(page, '#cost .table', 3);
  check('what each part cost', PARTS.every((part) => costs.some(([, took]) => took === `${seen.parts[part].ms.toFixed(1)} ms`)), costs.map((c) => c.join(' ')).join(', '));

  console.log('\nnames are text');
  for (const more of await page.$$('.more')) if (await more.isVisible()) await more.click();
  const text = await page.textContent('main');
  check('a process and a table with a name of markup are shown', text.includes('</script><script>document.title="run"</script>')
    && text.includes('<img src=x onerror=alert(1)>'));
  check('nothing of them is an element', (await page.$$('script')).length === 1 && (await page.$$('img')).length === 0);
  check('nothing of them ran', (await page.title()).endsWith(' – sonde'), await page.title());

  console.log('\nit goes on');
  const before = seen.answers.length;
  await page.waitForTimeout(1500);
  check('paused, it asks for nothing', seen.answers.length === before);
  await page.fill('#processes input', 'document.title');
  await page.focus('#processes input');
  await page.click('.state button');
  await page.focus('#processes input');
  const then = seen.parts.processes.at;
  const flames = await zoomed(page, seen);
  for (let i = 0; i < 1800 && seen.parts.processes.at === then; i += 1) await page.waitForTimeout(100);
  await page.waitForTimeout(100);
  check('the flame graph stays where it was zoomed to, with new numbers', flames.came && flames.zoomed === flames.after && flames.open, JSON.stringify(flames));
  await page.focus('#processes input');
  check('resumed, the processes come again', seen.parts.processes.at > then);
  check('the filter stays, and its rows', (await page.inputValue('#processes input')) === 'document.title' && (await cells(page, '#processes .table', 1)).length === 1);
  check('the order stays', await page.getAttribute(`#processes thead th:nth-child(${queues + 1})`, 'aria-sort') === 'descending');
  check('the focus stays', await page.evaluate(() => document.activeElement.matches('#processes input')));
  const blocked = await page.evaluate(() => {
    const script = document.createElement('script');
    try { script.textContent = 'window.ran = true'; document.body.append(script); } catch { return true; }
    return window.ran !== true;
  });
  check('the policy forbids another script', blocked);
  const elsewhere = await page.evaluate(() => fetch('http://127.0.0.1:9/').then(() => 'fetched', (error) => error.name));
  check('and other addresses', elsewhere === 'TypeError');
  await context.close();
}

// Zooms into the flame graph, opens what is folded, and waits until there are other stacks.
async function zoomed(page, seen) {
  const said = () => page.$eval('#stacks .cell.selected text', (text) => `${text.closest('.icicle').querySelectorAll('.tone-0').length} ${text.textContent}`);
  await page.focus('#stacks .keys');
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.click('#stacks summary');
  await page.focus('#stacks .keys');
  const [there, at] = [await said(), seen.parts.stacks.at];
  for (let i = 0; i < 1800 && seen.parts.stacks.at === at; i += 1) await page.waitForTimeout(100);
  await page.waitForTimeout(200);
  return { came: seen.parts.stacks.at > at, zoomed: there, after: await said(), open: await page.evaluate(() => document.querySelector('#stacks details').open
    && document.activeElement.matches('#stacks .keys')) };
}

async function framed() {
  console.log('\nfrom another page');
  const context = await browser.newContext();
  const page = await context.newPage();
  const statuses = [];
  page.on('response', (response) => { if (response.url().startsWith(url)) statuses.push(response.status()); });
  await page.route('http://elsewhere.example/', (route) => route.fulfill({ contentType: 'text/html',
    body: `<iframe src="${url}"></iframe><script>fetch("${url}data").catch(() => {})</script><script src="${url}data"></script><a href="${url}">to it</a>` }));
  await page.goto('http://elsewhere.example/');
  await page.waitForTimeout(1000);
  check('no frame, no fetch, no script', statuses.every((status) => status === 404), statuses.join(' '));
  await page.click('a');
  await page.waitForFunction(() => document.querySelector('h1'));
  check('a link leads to it', (await page.textContent('h1')).length > 0 && page.url() === url);
  await context.close();
}

async function keys() {
  console.log('\nby keyboard alone');
  const { page, context } = await open(1280, 'light');
  const tabTo = async (selector, most = 200) => {
    for (let i = 0; i < most; i += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return true;
    }
    return false;
  };
  await page.keyboard.press('Tab');
  check('the first stop skips to the numbers', await page.evaluate(() => document.activeElement.matches('.skip')));
  check('pause is reached', await tabTo('.state button'));
  await page.keyboard.press('Enter');
  check('and pauses', await page.textContent('.state button') === 'Resume');
  await page.keyboard.press('Enter');
  check('a column sorts', await tabTo('#processes thead th:nth-child(6) button'));
  await page.keyboard.press('Enter');
  check('by messages', await page.getAttribute('#processes thead th:nth-child(6)', 'aria-sort') === 'descending');
  check('the flame graph is reached', await tabTo('#stacks .keys'));
  check('the end is reached', await tabTo('#cost .scroll'));
  await context.close();
}

async function looks(width, scheme) {
  console.log(`\n${width} pixels, ${scheme}`);
  const { page, context, seen } = await open(width, scheme, { bypassCSP: true });
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check('nothing is wider than the window', wide === width, `${wide} of ${width}`);
  if (width === 1280) {
    const cut = await page.$$eval('nav a', (all) => all.filter((a) => a.getBoundingClientRect().right > document.documentElement.clientWidth).map((a) => a.textContent));
    check('the links to all sections are there', cut.length === 0, cut.join(' '));
  }
  const outside = await page.$$eval('h1, h2, main > section > p, .fact, .state, .chart svg', (all) => all
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map((e) => e.outerHTML.slice(0, 80)));
  check('nothing is cut off at the right', outside.length === 0, outside.join(' '));
  const touch = await page.$$eval('.history svg', (all) => all.flatMap((svg) => [...svg.querySelectorAll('.tick')].map((tick) => tick.getBoundingClientRect())
    .filter(({ left }, i, boxes) => i > 0 && left < boxes[i - 1].right).map(({ left }) => left)));
  check('no two labels of an axis touch', touch.length === 0, touch.join(' '));
  const light = (rgb) => rgb.match(/[0-9]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b, 0) / 3;
  const [ground, ink] = await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);
  check(`the ground is ${scheme}`, scheme === 'dark' ? light(ground) < 60 && light(ink) > 180 : light(ground) > 230 && light(ink) < 80, `${ground}, ${ink}`);
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
  check('axe-core has no serious finding', serious.length === 0 && passes.length > 15, serious.map((v) => `${v.id}: ${v.nodes[0].html}`).join(' ')
    || `${passes.length} rules passed; lesser ones: ${violations.map((v) => v.id).join(' ') || 'none'}`);
  if (process.env.SONDE_SHOTS) {
    await page.waitForTimeout(15000);
    await page.screenshot({ path: `${process.env.SONDE_SHOTS}/live-${width}-${scheme}.png`, fullPage: true });
  }
  await context.close();
}

async function ended() {
  console.log('\nthe end');
  const { page, context } = await open(1280, 'light');
  writeFileSync(`${dir}/stop`, '');
  await page.waitForFunction(() => document.querySelector('.state .lost'), null, { timeout: 30000 });
  check('the page says that there is no answer', (await page.textContent('.state .lost')).startsWith('No answer'), await page.textContent('.state .lost'));
  await context.close();
}

try {
  await numbers();
  await framed();
  await keys();
  for (const width of [1280, 390]) for (const scheme of ['light', 'dark']) await looks(width, scheme);
  await ended();
} catch (error) {
  check('the checks came to their end', false, error.stack);
} finally {
  await browser.close();
}
console.log(`web: ${passed} checks passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
