// What each section shows: a chart, and a table or a text that says the same.

import { h } from './dom.js';
import { bytes, count, duration, percent, signed, someProcesses, time, words } from './format.js';
import { graph, MOST } from './waits.js';
import { history } from './lines.js';
import { icicle } from './icicle.js';
import { again } from './keep.js';
import { table } from './table.js';
import { treemap } from './treemap.js';

const number = (title, get, format = count, more = {}) => ({ title, get, text: (row) => format(get(row)), number: true, ...more });
const text = (title, get, more = {}) => ({ title, get, ...more });
const code = (title, get, more = {}) => text(title, get, { code: true, ...more });
const at = (i) => (row) => row[i];

const explained = (...lines) => h('p', { class: 'lead' }, ...lines);
const same = (summary, content) => again(content, () => h('details', {}, h('summary', {}, summary), content));

const named = (process, name) => h('span', {}, h('span', { class: 'code' }, process), name && ' ', name && h('b', { class: 'code' }, name));

// ---- the diagnosis

function suspect({ finding, evidence, remedy, see }) {
  return h('li', {}, h('p', { class: 'finding' }, finding),
    h('dl', { class: 'evidence' }, evidence.map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', { class: 'code' }, value)))),
    h('p', {}, remedy), h('p', { class: 'code see' }, see));
}

// In the words of `sonde diagnose`. From outside, `read` is the number of processes that were read in full.
function noSuspects(read, counts) {
  const all = counts.find(([name]) => name === 'processes')?.[1];
  if (read === null || read === undefined || read >= all) return 'No suspects';
  if (read === 0) return 'No process was read in full, so no suspects are known';
  return `No suspects among the ${count(read)} ${read === 1 ? 'process that was' : 'processes that were'} read in full`;
}

export function diagnosis({ ms, suspects, read, counts, not_looked_at: missing }) {
  const found = suspects.length === 0 ? noSuspects(read, counts) : suspects.length === 1 ? 'One suspect' : `${suspects.length} suspects, the worst first`;
  return [explained(`${found}. The node was ${ms > 0 ? `watched for ${duration(ms)}` : 'looked at once'}.`),
    suspects.length > 0 && h('ol', { class: 'suspects' }, suspects.map(suspect)),
    missing.length > 0 && h('p', { class: 'note' }, 'Not looked at: ', missing.map(([what, why]) => `${what} (${why})`).join('; '), '.')];
}

function memory({ memory: kinds, grown, ms, by_allocator: allocators }) {
  const parts = ['processes', 'binary', 'ets', 'code', 'atom'].filter((kind) => kinds[kind] !== null);
  const known = parts.reduce((sum, kind) => sum + kinds[kind], 0);
  const rows = parts.map((kind) => [kind, kinds[kind], grown[kind]]);
  if (kinds.total !== null) rows.push(['other', Math.max(0, kinds.total - known), null]);
  const total = kinds.total ?? known;
  if (kinds.allocated === null) return explained(`The processes have ${bytes(kinds.processes)}, without the binaries outside of their heaps.`);
  return [explained(`${bytes(total)} in all, `, signed(grown.total ?? 0, bytes) || 'no change', ` in ${duration(ms)}. `,
    `The allocators hold ${bytes(kinds.allocated)}, of which ${bytes(kinds.used)} are in use`,
    kinds.kept ? `; the VM keeps ${bytes(kinds.kept)} more for later use` : '',
    kinds.rss ? `; the operating system reports ${bytes(kinds.rss)} resident.` : '.'),
  table({ label: 'Memory by kind', sort: 1, rows, columns: [text('Kind', at(0)), number('Bytes', at(1), bytes),
    number('Share', (row) => row[1] / total, percent), number('Growth', at(2), (n) => (n === null ? '' : signed(n, bytes) || '0'))] }),
  same('Allocated, by allocator', table({ label: 'Allocated by allocator', sort: 1, rows: allocators,
    columns: [code('Allocator', at(0)), number('Bytes', at(1), bytes)] }))];
}

// ---- binaries

const PARTS = {
  exclusive: 'of one process', shared: 'of several processes', ets: 'in rows of tables', queues: 'in messages that are not on a heap yet',
  literals: 'in persistent terms', mixed: 'of several of these', resources: 'of native libraries', elsewhere: 'of something else, such as the queue of a port',
  overhead: 'headers, and what the allocator adds', unseen: 'to which nothing that was read refers',
};

export function binaries(found) {
  const total = found.total ?? found.parts.reduce((sum, [, n]) => sum + n, 0);
  const holders = found.holders?.map((row, i) => ({ ...row, i: i + 1 }));
  return [explained(`${bytes(total)}, each binary counted once.`, found.unused === null ? '' : ` The allocator holds ${bytes(found.unused)} more.`,
    found.missed > 0 ? ` ${count(found.missed)} processes could not be read.` : '',
    found.sampled !== null ? ` From a sample of ${percent(found.sampled)}; the error is at most ${bytes(found.error)}.` : ''),
  table({ label: 'Binary memory by what holds it', sort: 2, filter: false, rows: found.parts,
    columns: [text('Part', (row) => words(row[0])), text('Memory', (row) => PARTS[row[0]], { class: 'wide' }),
      number('Bytes', at(1), bytes), number('Share', (row) => (total ? row[1] / total : 0), percent)] }),
  holders && [h('h3', {}, 'Largest binaries'), holders.length === 0 ? explained('There are none outside of the heaps.')
    : table({ label: 'Largest binaries and their holders', sort: 0, first: 10, rows: holders,
      columns: [number('Size', (row) => row.size, bytes), number('References', (row) => row.refc),
        text('Held by', (row) => row.holders.map(([name]) => name).join(', ')
          + (row.held_by > row.holders.length ? `, and ${count(row.held_by - row.holders.length)} more` : '')
          + (row.elsewhere > 0 ? `${row.holders.length > 0 ? ', and ' : ''}${count(row.elsewhere)} elsewhere` : ''), { code: true, class: 'wrap' })] })],
  found.resources.length > 0 && [h('h3', {}, 'Memory of native libraries'),
    table({ label: 'Resources of native libraries', sort: 2, first: 10, rows: found.resources,
      columns: [code('Type', at(0)), number('Resources', at(1)), number('Bytes', at(2), bytes), number('Processes', at(3))] })]];
}

// ---- processes

export function groups({ rows }) {
  const memory = rows.reduce((sum, row) => sum + row[4], 0);
  const processes = rows.reduce((sum, row) => sum + row[3], 0);
  return [explained(`${someProcesses(processes)} with ${bytes(memory)}. An area is memory; the stronger its colour, the more each process has.`),
    treemap({ rows, label: `Memory of ${someProcesses(processes)} by application and initial call` }),
    table({ label: 'Processes by application and initial call', sort: 3, first: 10, rows,
      columns: [text('Application', (row) => row[0] ?? 'none'), code('Initial call', (row) => row[1] ?? `${count(row[2])} ${row[2] === 1 ? 'other' : 'others'}`),
        number('Processes', at(3)), number('Memory', at(4), bytes), number('Binaries', at(5), bytes), number('Messages', at(6)),
        number('Memory each', (row) => row[4] / row[3], bytes)] })];
}

const SHORT = {
  memory: 'Memory', binary_memory: 'Binaries', message_queue_len: 'Messages', reductions: 'Reductions', total_heap_size: 'Heap',
  stack_size: 'Stack', binary_count: 'Binary refs', link_count: 'Links', monitor_count: 'Monitors', monitored_by_count: 'Monitored by',
  dictionary_size: 'Dictionary',
};

const process = (i) => code('Process', (row) => (row[i + 1] ? `${row[i]} ${row[i + 1]}` : row[i]), { node: (row) => named(row[i], row[i + 1]), class: 'first' });

export function processes({ attrs, units, rows }, { top, wordsize }) {
  const columns = attrs.map((attr, i) => {
    const words_ = units[i] === 'words';
    const format = units[i] === 'bytes' || words_ ? bytes : count;
    return number(SHORT[attr] || words(attr), (row) => (words_ ? row[4 + i] * wordsize : row[4 + i]), format, { help: attr });
  });
  return [explained(`The ${count(top)} largest by each of ${attrs.length} numbers: sort by the one that you ask about.`),
    table({ label: 'Largest processes', sort: 3, most: top, rows,
      columns: [process(0), code('Initial call', at(2)), code('Current function', at(3)), ...columns] })];
}

export function busy({ ms, rows }) {
  const all = rows.reduce((sum, row) => sum + row[4], 0);
  return [explained(`Reductions in ${duration(ms)}. A share is of the ${count(rows.length)} processes that are listed.`),
    rows.length > 0 && table({ label: 'Processes by reductions', sort: 3, first: 10, rows,
      columns: [process(0), code('Initial call', at(2)), code('Current function', at(3)), number('Reductions', at(4)),
        number('Share', (row) => row[4] / all, percent)] })];
}

// ---- tables, ports, sockets, allocators

export function tables({ rows, all }) {
  const read = rows.some((row) => row[6] !== null);
  return [explained(`${count(rows.length)} of ${count(all)} tables, the largest by memory and by rows.`,
    read && " Binaries lie outside of the table's memory."),
    table({ label: 'Tables', sort: 5, first: 10, rows,
      columns: [code('Table', at(0), { class: 'first' }), code('Owner', at(1)), text('Type', at(2)), text('Access', at(3)),
        number('Rows', at(4)), number('Memory', at(5), bytes),
        ...(read ? [number('Binaries', at(6), (n) => (n === null ? 'not read' : bytes(n)))] : [])] })];
}

export function ports({ rows, all, kinds }) {
  return [explained(`${count(all)} ports: `, kinds.map(([name, n]) => `${count(n)} ${name}`).join(', '), '.'),
    rows.length > 0 && table({ label: 'Ports', sort: 6, first: 10, rows,
      columns: [code('Port', at(0), { class: 'first' }), code('Driver', at(1)), code('Owner', at(2)), number('Memory', at(3), bytes),
        number('Queue', at(4), bytes), number('Input', at(5), bytes), number('Output', at(6), bytes)] })];
}

function sockets({ rows, all }) {
  if (all === 0) return explained('There are no sockets of the module socket; sockets that are ports are among the ports.');
  return [explained(`${count(all)} sockets of the module socket; sockets that are ports are among the ports.`),
    table({ label: 'Sockets', sort: 3, first: 10, rows,
      columns: [code('Owner', at(0)), text('Protocol', at(1)), text('Domain', at(2)), number('Octets', at(3), bytes),
        number('Read', at(4), bytes), number('Written', at(5), bytes)] })];
}

export function allocators({ rows }) {
  const used = rows.reduce((sum, row) => sum + row[2] + row[4], 0);
  const held = rows.reduce((sum, row) => sum + row[3] + row[5], 0);
  const share = (part, whole) => (whole > 0 ? part / whole : null);
  return [explained(`Blocks take ${bytes(used)} of the ${bytes(held)} that the allocators hold (${percent(share(used, held))}). `,
    'Blocks that are large have a carrier of their own (single); all others share carriers (multi).'),
  table({ label: 'Allocators', sort: 7, filter: false, rows,
    columns: [code('Allocator', at(0), { class: 'first' }), number('Instances', at(1)), number('Single, used', at(2), bytes), number('Single, held', at(3), bytes),
      number('Multi, used', at(4), bytes), number('Multi, held', at(5), bytes), number('Multi, in use', (row) => share(row[4], row[5]), percent),
      number('Unused', (row) => row[3] + row[5] - row[2] - row[4], bytes)] })];
}

// ---- waits, heaps, stacks

export function waits({ rows }) {
  if (rows.length === 0) return explained('No process waits for an answer of another one.');
  const columns = [code('Process', (row) => row.named, { class: 'first' }), number('Waiting', (row) => row.waiters), number('Directly', (row) => row.direct),
    number('Messages', (row) => row.queue), code('Waits for', (row) => row.waits_for ?? ''), code('Initial call', (row) => row.initial_call ?? ''),
    code('Longest chain', (row) => row.chain.join(' > '), { class: 'wrap' })];
  const circles = rows.filter((row) => row.deadlock.length > 0).length;
  return [explained('A line is a process that others wait for; below it are those that wait for it and are waited for themselves. ',
    circles > 0 ? 'A process on a circle waits for itself: a deadlock. ' : '',
    rows.length > MOST ? `The graph shows ${MOST} of ${rows.length}; the table has all.` : ''),
  graph({ rows, label: `${Math.min(rows.length, MOST)} of ${rows.length} processes that others wait for` }),
  table({ label: 'Processes that others wait for', sort: 1, first: 10, rows, columns })];
}

const flat = (tree, depth = 0, path = []) => (tree.children || []).flatMap((child) => [
  { ...child, depth, path: [...path, child.name] }, ...flat(child, depth + 1, [...path, child.name])]);

function heap(found) {
  const title = h('h3', {}, h('span', { class: 'code' }, found.named), h('span', { class: 'dim' }, `  ${found.why}`));
  const head = found.blocks && h('p', {}, `${bytes(found.reachable)} reachable, ${bytes(found.garbage)} garbage, ${bytes(found.blocks.free)} free, `,
    `stack ${bytes(found.blocks.stack)}; binaries outside of the heap: ${bytes(found.binaries.pinned)}, of which terms show ${bytes(found.binaries.visible)}.`,
    found.sensitive ? ' The process is sensitive: keys and names of functions are not shown.' : '');
  if (found.failed) return [title, head, h('p', { class: 'note' }, `Not in this report: ${found.failed}.`)];
  if (found.tree.children.length === 0) return [title, head];
  const objects = flat(found.tree);
  return [title, head,
    icicle({ label: `Objects that retain the heap of ${found.named}`, root: found.tree, format: bytes,
      tone: (node) => (node.depth === 0 ? 0 : Math.min(4, 1 + Math.round((3 * node.data.self) / Math.max(1, node.data.bytes)))) }),
    same('The same as a table', table({ label: `Objects of ${found.named}`, sort: 1, rows: objects,
      columns: [code('Path', (row) => row.path.join(' / '), { class: 'wrap' }), number('Retains', (row) => row.bytes, bytes),
        number('Itself', (row) => row.self, bytes), text('Kind', (row) => row.kind),
        ...(objects.some((row) => row.preview) ? [code('Preview', (row) => row.preview ?? '', { class: 'wrap' })] : [])] })),
    same('Kinds of objects', table({ label: `Kinds of objects of ${found.named}`, sort: 2, filter: false, rows: found.kinds,
      columns: [text('Kind', at(0)), number('Objects', at(1)), number('Bytes', at(2), bytes)] }))];
}

function heaps({ processes: found }) {
  return [explained('For the worst processes: what would be freed if nothing led to an object any more. An object is below the one on its path ',
    'that retains it; the stronger the colour, the more of that is the object itself.'), found.map(heap)];
}

export function flames(calls, rows) {
  const root = { name: 'all processes', bytes: 0, children: [], index: new Map() };
  for (const [n, stack] of rows) {
    let node = root;
    root.bytes += n;
    for (const call of stack.length > 0 ? stack.map((i) => calls[i]) : ['(hibernated: no stack)']) {
      if (!node.index.has(call)) {
        const child = { name: call, bytes: 0, children: [], index: new Map() };
        node.index.set(call, child);
        node.children.push(child);
      }
      node = node.index.get(call);
      node.bytes += n;
    }
  }
  return root;
}

export function stacks({ calls, rows }) {
  const root = flames(calls, rows);
  const line = (row) => row[1].map((i) => calls[i]).reverse().join(' < ') || '(hibernated)';
  return [explained(`Stacks of ${someProcesses(root.bytes)}, ${count(rows.length)} different ones. A function is below the one that called it; its width is the number of processes.`),
    icicle({ label: 'Stacks of processes', root, format: someProcesses, tone: (node) => (node.depth === 0 ? 0 : 1 + (node.depth % 2)) }),
    same('The same as a table', table({ label: 'Stacks', sort: 1, first: 10, rows,
      columns: [code('Stack, the innermost function first', line, { class: 'wrap' }), number('Processes', at(0)), code('Example', at(2))] }))];
}

// ---- the watcher

const ofFinding = (what, kind, name) => (kind === 'memory'
  ? what === `memory of ${name}` || (name === 'processes' && what.startsWith('process ')) || (name === 'ets' && what.startsWith('table '))
  : what === `number of ${name}`);

function finding(found) {
  const more = found.event === 'leak' ? `grows by ${what(found.what) ? count(found.per_hour) : bytes(found.per_hour)} an hour, for ${found.hours} h`
    : `${count(found.count)} of ${count(found.limit)}`;
  return h('li', {}, h('span', { class: 'dim' }, `${time(found.at)}  `), h('b', {}, `${found.event}: ${found.what}`), `  ${more}`);
}

const what = (name) => name.startsWith('number of ');

function watcher({ interval, sweeps, times, series, findings }) {
  const charts = series.filter(([, , values]) => values.some((value) => value !== null));
  const last = times.length - 1;
  const columns = [text('Number', (row) => `${row[0] === 'memory' ? 'memory of ' : ''}${words(row[1])}`),
    ...['First', 'Least', 'Largest', 'Last'].map((title) => number(title, (row) => {
      const values = row[2].filter((value) => value !== null);
      return { First: values[0], Least: Math.min(...values), Largest: Math.max(...values), Last: values[values.length - 1] }[title];
    }))].map((column) => (column.number ? { ...column, text: (row) => (row[0] === 'memory' ? bytes : count)(column.get(row)) } : column));
  return [explained(`${count(times.length)} samples from ${time(times[0])} to ${time(times[last])} UTC, one every ${duration(interval)}; ${count(sweeps)} since the watcher started.`),
    findings.length > 0 ? h('ul', { class: 'findings' }, findings.map(finding)) : explained('The watcher reports no leak, and no limit that is near.'),
    h('div', { class: 'histories' }, charts.map(([kind, name, values]) => history({
      title: kind === 'memory' ? `memory of ${words(name)}` : words(name), times, values, format: kind === 'memory' ? bytes : count,
      marks: findings.filter((found) => ofFinding(found.what, kind, name) && found.at >= times[0] && found.at <= times[last]) }))),
    same('The same as a table', table({ label: 'History', sort: null, filter: false, rows: charts, columns }))];
}

// ---- the report itself

function about(_, data) {
  const rows = Object.entries(data.sections).map(([name, section]) => [name, section.ms, section.failed ? `missing: ${section.failed}` : (section.cut || []).join('; ') || 'complete']);
  return [h('p', {}, `Made by sonde ${data.made_by} at ${time(data.at)} UTC`, data.native === 'native' ? '.' : `, on the portable path: ${data.native}.`,
    data.content ? ' It was asked for content: previews and keys of terms are shown where a process is not sensitive.'
      : ' It has names of processes, tables, modules and functions, and numbers. It has no messages, no values, no keys but atoms, no arguments of programs, and no addresses.'),
  table({ label: 'What each section cost', sort: 1, filter: false, rows,
    columns: [text('Section', at(0)), number('Time', at(1), (ms) => `${count(ms)} ms`), text('Result', at(2), { class: 'wrap' })] })];
}

export const sections = {
  diagnosis: { source: 'diagnosis', draw: diagnosis }, memory: { source: 'diagnosis', draw: memory },
  binaries: { source: 'binaries', draw: binaries }, groups: { source: 'groups', draw: groups },
  processes: { source: 'processes', draw: processes }, busy: { source: 'busy', draw: busy }, waits: { source: 'waits', draw: waits },
  heaps: { source: 'heaps', draw: heaps }, stacks: { source: 'stacks', draw: stacks }, tables: { source: 'tables', draw: tables },
  ports: { source: 'ports', draw: ports }, sockets: { source: 'sockets', draw: sockets },
  allocators: { source: 'allocators', draw: allocators }, watcher: { source: 'watcher', draw: watcher }, about: { source: null, draw: about },
};
