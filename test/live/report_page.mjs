// report_page.mjs MODULES DIR BUILT PAGE: checks the reports in DIR in headless Chromium: what is drawn is
// compared with the JSON that it was drawn from; widths, colours, keys, accessibility (axe-core), and that
// nothing runs and nothing is fetched. BUILT and PAGE must be the same file.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, dir, built, committed] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

let [passed, failed] = [0, 0];
function check(name, good, detail = '') {
  if (good) passed += 1; else failed += 1;
  console.log(`  ${good ? 'ok  ' : 'FAIL'}  ${name}${detail === '' ? '' : `: ${String(detail).slice(0, 400)}`}`);
}
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

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

const bytes = (n) => {
  if (n < 1024) return `${n} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [n / 1024, 0];
  while (size >= 1023.95) { size /= 1024; unit += 1; }
  return `${size.toFixed(1)} ${units[unit]}`;
};
const count = (n) => n.toLocaleString('en-US');

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

  const kinds = await cells(page, '#memory .table', 2);
  check('memory by kind', ['processes', 'binary', 'ets', 'code', 'atom'].every((kind) =>
    kinds.some(([k, v]) => k === kind && v === bytes(of('diagnosis').memory[kind]))), kinds.join(' '));
  const growth = await cells(page, '#memory .table', 4);
  check('growth by kind: 0 where there is none, nothing where it is not known', growth.every(([kind, , , shown]) => {
    const n = of('diagnosis').grown[kind];
    return kind === 'other' ? shown === '' : n === 0 ? shown === '0' : shown === `${n > 0 ? '+' : '−'}${bytes(Math.abs(n))}`;
  }), growth.map(([kind, , , shown]) => `${kind}=${shown}`).join(' '));
  const parts = await cells(page, '#binaries .table', 3);
  check('binary memory by part', of('binaries').parts.every(([part, n]) =>
    parts.some(([p, , v]) => p === part && (n < 0 || v === bytes(n)))), parts.map((p) => p.join('=')).join(' '));

  await treemap(page, of('groups').rows);
  await processes(page, data);

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

  const lines = await page.$$eval('.history', (all) => all.map((f) => [f.querySelector('figcaption span').textContent,
    f.querySelector('figcaption b').textContent, Number(f.querySelector('path.value').dataset.values)]));
  check('the history has each series, with all its values', of('watcher').series.every(([kind, name, values]) => {
    const title = (kind === 'memory' ? `memory of ${name}` : name).replaceAll('_', ' ');
    const last = values[values.length - 1];
    return lines.some(([t, v, n]) => t === title && n === values.length && v === (kind === 'memory' ? bytes(last) : count(last)));
  }), `${lines.length} lines of ${of('watcher').times.length} samples`);

  const tables = await cells(page, '#tables .table', 7);
  const largest = [...of('tables').rows].sort((a, b) => b[5] - a[5])[0];
  check('tables: the largest is first', tables[0][5] === bytes(largest[5]) && tables[0][4] === count(largest[4]), tables[0].join(' '));

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
}

async function processes(page, { sections, wordsize, top }) {
  const { attrs, units, rows } = sections.processes.data;
  const wrong = [];
  for (const [i, attr] of attrs.entries()) {
    const head = page.locator('#processes thead th').nth(3 + i).locator('button');
    await head.click();
    if (await page.locator('#processes thead th').nth(3 + i).getAttribute('aria-sort') !== 'descending') await head.click();
    const scale = units[i] === 'words' ? wordsize : 1;
    const show = (n) => (units[i] === 'plain' ? count(n) : bytes(n * scale));
    const shown = (await cells(page, '#processes .table', 3 + attrs.length)).map((row) => row[3 + i]);
    const expected = rows.map((row) => row[4 + i]).sort((a, b) => b - a).slice(0, shown.length).map(show);
    if (!same(shown, expected)) wrong.push(`${attr}: ${shown.slice(0, 3)} is not ${expected.slice(0, 3)}`);
  }
  check(`processes sort by each of ${attrs.length} attributes`, wrong.length === 0, wrong.join('; '));
  const more = page.locator('#processes .more');
  while (await more.isVisible()) await more.click();
  check('all of the top are shown', (await cells(page, '#processes .table', 1)).length === Math.min(top, rows.length));
  await page.fill('#processes input', 'document.title');
  check('the filter finds a process by its name', (await cells(page, '#processes .table', 1)).length === 1);
  await page.fill('#processes input', '');
}

async function icicle(box, name, total) {
  const width = await box.evaluate((b) => b.clientWidth);
  const parts = await box.$$eval('.cell', (all) => all.map((g) => [Number(g.dataset.bytes), Number(g.querySelector('rect').getAttribute('width')),
    Number(g.dataset.depth)]));
  const wrong = parts.filter(([n, w]) => Math.abs(w + 1 - (n / total) * width) > 1.5);
  check(`${name}: widths are the numbers`, parts[0][0] === total && wrong.length === 0, `${parts.length} parts, total ${total}, ${wrong.slice(0, 2)}`);
}

// ---- keys

async function keys() {
  console.log('\nby keyboard alone');
  const { page, context } = await open('native.html', 1280, 'light');
  const active = () => page.evaluate(() => document.activeElement.outerHTML.slice(0, 120));
  const tabTo = async (selector, most = 400) => {
    for (let i = 0; i < most; i += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return true;
    }
    return false;
  };
  await page.keyboard.press('Tab');
  check('the first stop skips to the report', (await active()).includes('class="skip"'), await active());
  check('the sections are reached', await tabTo('nav a'));
  check('a column sorts', await tabTo('#processes thead th:nth-child(6) button'));
  await page.keyboard.press('Enter');
  check('by messages', await page.getAttribute('#processes thead th:nth-child(6)', 'aria-sort') === 'descending');
  check('more rows', await tabTo('#processes .more'));
  const before = await page.$$eval('#processes tbody tr', (all) => all.length);
  await page.keyboard.press('Enter');
  check('are shown', await page.$$eval('#processes tbody tr', (all) => all.length) > before);
  check('a heap is reached', await tabTo('#heaps .keys'));
  const said = () => page.textContent('#heaps .said >> nth=0');
  const first = await said();
  await page.keyboard.press('ArrowDown');
  const second = await said();
  check('arrows move in it', first !== second, second);
  const widest = () => page.$$eval('#heaps .icicle >> nth=0 >> .cell.selected rect', (all) => Number(all[0].getAttribute('width')));
  const width = await widest();
  await page.keyboard.press('Enter');
  const zoomed = await widest();
  check('Enter zooms', zoomed >= width && zoomed > 1200, `${width} to ${zoomed}`);
  await page.keyboard.press('Escape');
  check('Escape goes back', await said() === first);
  check('what is folded opens', await tabTo('#heaps summary'));
  await page.keyboard.press('Enter');
  check('with the same as a table', await page.$eval('#heaps details', (d) => d.open));
  check('the end is reached', await tabTo('#about .scroll'));
  await context.close();
}

// ---- widths, colours, accessibility

async function looks(name, width, scheme) {
  const { page, context, seen } = await open(name, width, scheme, { bypassCSP: true });
  check('no error', seen.errors.length === 0, seen.errors.join(' | '));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check('nothing is wider than the window', wide === width, `${wide} of ${width}`);
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
  const calls = of('diagnosis').suspects.map(({ see }) => see);
  check('the calls are typed as commands', calls.length > 0 && calls.every((call) => call.startsWith('sonde --pid 1 ')), calls.join('; '));
  check('memory of processes', (await page.textContent('#memory')).includes(bytes(of('diagnosis').memory.processes)));
  await treemap(page, of('groups').rows);
  await processes(page, data);
  const heaps = await page.$$('#heaps .icicle');
  const failed = of('heaps').processes.filter(({ tree }) => !tree).map(({ named, why, failed: because }) => `${named} (${why}): ${because}`);
  check('three heaps', heaps.length === 3 && of('heaps').processes.length === 3, failed.join('; ') || heaps.length);
  for (const [i, heap] of heaps.entries()) await icicle(heap, `heap ${i + 1}`, of('heaps').processes[i].tree.bytes);
  await icicle(await page.$('#stacks .icicle'), 'stacks', sum(of('stacks').rows.map(([n]) => n)));
  check('the graph of waits', (await page.$$('#waits circle')).length === of('waits').rows.length);
  check('nothing of a name ran', (await page.title()) === `${data.node} – sonde report` && (await page.$$('script')).length === 2);
  await context.close();
  for (const scheme of ['light', 'dark']) await looks('outside.html', 390, scheme);
}

try {
  await numbers();
  await keys();
  for (const width of [1280, 390]) {
    for (const scheme of ['light', 'dark']) {
      console.log(`\n${width} pixels, ${scheme}`);
      await looks('native.html', width, scheme);
    }
  }
  await outside();
  await portable();
} catch (error) {
  check('the checks ran to their end', false, error.stack);
}
await browser.close();
console.log(`\nreport: ${passed} checks passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
