// What the page of a report must show of its JSON, written without the sources of the page: the tables by their
// labels, each with its heads and all of its rows in order, the suspects and the findings.

export const bytes = (n) => {
  if (n === null) return '';
  if (n < 0) return `−${bytes(-n)}`;
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [n / 1024, 0];
  while (size >= 1023.95) { size /= 1024; unit += 1; }
  return `${size.toFixed(1)} ${units[unit]}`;
};
export const count = (n) => (n === null ? '' : Math.round(n).toLocaleString('en-US'));
export const percent = (share) => (share === null ? '' : `${(100 * share).toFixed(1)} %`);
const grown = (n) => (n === null ? '' : n === 0 ? '0' : n > 0 ? `+${bytes(n)}` : bytes(n));
export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const words = (name) => name.replaceAll('_', ' ');
const named = (process, name) => (name ? `${process} ${name}` : process);
const second = (ms) => new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

// The largest first, those without a number last; equal ones as they come.
export const by = (get, rows) => [...rows].sort((a, b) => (get(b) ?? -Infinity) - (get(a) ?? -Infinity) || 0);
const table = (heads, rows, cells) => ({ heads, rows: rows.map(cells) });

const PARTS = {
  exclusive: 'of one process', shared: 'of several processes', ets: 'in rows of tables', queues: 'in messages that are not on a heap yet',
  literals: 'in persistent terms', mixed: 'of several of these', resources: 'of native libraries',
  elsewhere: 'of something else, such as the queue of a port', overhead: 'headers, and what the allocator adds',
  unseen: 'to which nothing that was read refers',
};
const ATTRS = {
  memory: 'Memory', binary_memory: 'Binaries', message_queue_len: 'Messages', reductions: 'Reductions', total_heap_size: 'Heap', stack_size: 'Stack',
  binary_count: 'Binary refs', link_count: 'Links', monitor_count: 'Monitors', monitored_by_count: 'Monitored by', dictionary_size: 'Dictionary',
};

// The largest processes by one attribute.
export function processes({ sections, wordsize, top }, attr) {
  const { attrs, units, rows } = sections.processes.data;
  const show = (n, i) => (n === null ? '' : units[i] === 'words' ? bytes(n * wordsize) : units[i] === 'bytes' ? bytes(n) : count(n));
  return table(['Process', 'Initial call', 'Current function', ...attrs.map((name) => ATTRS[name])],
    by((row) => row[4 + attrs.indexOf(attr)], rows).slice(0, top),
    ([pid, name, initial, current, ...values]) => [named(pid, name), initial ?? '', current ?? '', ...values.map(show)]);
}

function held({ holders, held_by: all, elsewhere }) {
  const parts = holders.length > 0 ? [holders.map(([name]) => name).join(', ')] : [];
  if (all > holders.length) parts.push(`${count(all - holders.length)} more`);
  if (elsewhere > 0) parts.push(`${count(elsewhere)} elsewhere`);
  return parts.join(', and ');
}

function objects({ children }, above = []) {
  return children.flatMap((child) => [[[...above, child.name].join(' / '), child], ...objects({ children: child.children ?? [] }, [...above, child.name])]);
}

export function tables(data) {
  const of = (name) => data.sections[name]?.data;
  const all = {};
  const { diagnosis, binaries, groups, busy, tables: ets, ports, sockets, allocators, waits, stacks, heaps, watcher } =
    Object.fromEntries(Object.keys(data.sections).map((name) => [name, of(name)]));
  if (diagnosis && diagnosis.memory.allocated !== null) {
    const { memory, grown: growth, by_allocator: allocated } = diagnosis;
    const kinds = ['processes', 'binary', 'ets', 'code', 'atom'].filter((kind) => memory[kind] !== null);
    const rows = [...kinds.map((kind) => [kind, memory[kind], growth[kind]]), ['other', Math.max(0, memory.total - sum(kinds.map((kind) => memory[kind]))), null]];
    all['Memory by kind'] = table(['Kind', 'Bytes', 'Share', 'Growth'], by((row) => row[1], rows), ([kind, n, more]) => [kind, bytes(n), percent(n / memory.total), grown(more)]);
    all['Allocated by allocator'] = table(['Allocator', 'Bytes'], by((row) => row[1], allocated), ([name, n]) => [name, bytes(n)]);
  }
  if (binaries) {
    const total = binaries.total ?? sum(binaries.parts.map(([, n]) => n));
    all['Binary memory by what holds it'] = table(['Part', 'Memory', 'Bytes', 'Share'], by((row) => row[1], binaries.parts),
      ([part, n]) => [words(part), PARTS[part], bytes(n), percent(total ? n / total : 0)]);
    if (binaries.holders?.length > 0) {
      all['Largest binaries and their holders'] = table(['Size', 'References', 'Held by'], by((row) => row.size, binaries.holders),
        (row) => [bytes(row.size), count(row.refc), held(row)]);
    }
    if (binaries.resources.length > 0) {
      all['Resources of native libraries'] = table(['Type', 'Resources', 'Bytes', 'Processes'], by((row) => row[2], binaries.resources),
        ([type, n, size, holders]) => [type, count(n), bytes(size), count(holders)]);
    }
  }
  if (groups) {
    all['Processes by application and initial call'] = table(['Application', 'Initial call', 'Processes', 'Memory', 'Binaries', 'Messages', 'Memory each'],
      by((row) => row[4], groups.rows), ([app, call, others, n, memory, binary, messages]) =>
        [app ?? 'none', call ?? `${count(others)} ${others === 1 ? 'other' : 'others'}`, count(n), bytes(memory), bytes(binary), count(messages), bytes(memory / n)]);
  }
  if (of('processes')) all['Largest processes'] = processes(data, 'memory');
  if (busy?.rows.length > 0) {
    const done = sum(busy.rows.map((row) => row[4]));
    all['Processes by reductions'] = table(['Process', 'Initial call', 'Current function', 'Reductions', 'Share'], by((row) => row[4], busy.rows),
      ([pid, name, initial, current, n]) => [named(pid, name), initial ?? '', current ?? '', count(n), percent(n / done)]);
  }
  if (ets) {
    const read = ets.rows.some((row) => row[6] !== null);
    all.Tables = table(['Table', 'Owner', 'Type', 'Access', 'Rows', 'Memory', ...(read ? ['Binaries'] : [])], by((row) => row[5], ets.rows),
      ([name, owner, type, access, n, memory, binary]) => [name, owner, type, access, count(n), bytes(memory), ...(read ? [binary === null ? 'not read' : bytes(binary)] : [])]);
  }
  if (ports?.rows.length > 0) {
    all.Ports = table(['Port', 'Driver', 'Owner', 'Memory', 'Queue', 'Input', 'Output'], by((row) => row[6], ports.rows),
      ([port, driver, owner, ...sizes]) => [port, driver, owner, ...sizes.map(bytes)]);
  }
  if (sockets?.all > 0) {
    all.Sockets = table(['Owner', 'Protocol', 'Domain', 'Octets', 'Read', 'Written'], by((row) => row[3], sockets.rows),
      ([owner, protocol, domain, ...sizes]) => [owner, protocol, domain, ...sizes.map(bytes)]);
  }
  if (allocators) {
    const unused = ([, , single, singleHeld, multi, multiHeld]) => singleHeld - single + multiHeld - multi;
    all.Allocators = table(['Allocator', 'Instances', 'Single, used', 'Single, held', 'Multi, used', 'Multi, held', 'Multi, in use', 'Unused'], by(unused, allocators.rows),
      (row) => [row[0], count(row[1]), ...row.slice(2, 6).map(bytes), row[5] > 0 ? percent(row[4] / row[5]) : '', bytes(unused(row))]);
  }
  if (waits?.rows.length > 0) {
    all['Processes that others wait for'] = table(['Process', 'Waiting', 'Directly', 'Messages', 'Waits for', 'Initial call', 'Longest chain'], by((row) => row.waiters, waits.rows),
      (row) => [row.named, count(row.waiters), count(row.direct), count(row.queue), row.waits_for ?? '', row.initial_call ?? '', row.chain.join(' > ')]);
  }
  if (stacks) {
    all.Stacks = table(['Stack, the innermost function first', 'Processes', 'Example'], by((row) => row[0], stacks.rows),
      ([n, calls, example]) => [calls.length === 0 ? '(hibernated)' : calls.map((i) => stacks.calls[i]).reverse().join(' < '), count(n), example ?? '']);
  }
  for (const { named: name, tree, kinds } of heaps?.processes ?? []) {
    if (!tree || tree.children.length === 0) continue;
    const rows = objects(tree);
    const previews = rows.some(([, { preview }]) => preview);
    all[`Objects of ${name}`] = table(['Path', 'Retains', 'Itself', 'Kind', ...(previews ? ['Preview'] : [])], by(([, object]) => object.bytes, rows),
      ([path, object]) => [path, bytes(object.bytes), bytes(object.self), object.kind, ...(previews ? [object.preview ?? ''] : [])]);
    all[`Kinds of objects of ${name}`] = table(['Kind', 'Objects', 'Bytes'], by((row) => row[2], kinds), ([kind, n, size]) => [kind, count(n), bytes(size)]);
  }
  if (watcher) {
    all.History = table(['Number', 'First', 'Least', 'Largest', 'Last'], watcher.series.filter(([, , values]) => values.some((n) => n !== null)), ([kind, name, all_]) => {
      const values = all_.filter((n) => n !== null);
      const show = kind === 'memory' ? bytes : count;
      return [`${kind === 'memory' ? 'memory of ' : ''}${words(name)}`, ...[values[0], Math.min(...values), Math.max(...values), values[values.length - 1]].map(show)];
    });
  }
  all['What each section cost'] = table(['Section', 'Time', 'Result'], by(([, { ms }]) => ms, Object.entries(data.sections)),
    ([name, { ms, failed, cut }]) => [name, `${count(ms)} ms`, failed ? `missing: ${failed}` : cut?.length > 0 ? cut.join('; ') : 'complete']);
  return all;
}

export const suspects = (data) => (data.sections.diagnosis.data?.suspects ?? []).map(({ finding, evidence, remedy, see }) => [finding, evidence, remedy, see]);

// How many suspects there are, in the words of `sonde diagnose`.
export function told({ sections: { diagnosis: { data } } }) {
  const n = data.suspects.length;
  if (n > 0) return n === 1 ? 'One suspect. ' : `${n} suspects, the worst first. `;
  const all = data.counts.find(([name]) => name === 'processes')[1];
  if (data.read === undefined || data.read === null || data.read >= all) return 'No suspects. ';
  if (data.read === 0) return 'No process was read in full, so no suspects are known. ';
  return `No suspects among the ${count(data.read)} process${data.read === 1 ? ' that was' : 'es that were'} read in full. `;
}

export const findings = (data) => data.sections.watcher.data.findings.map((found) => [second(found.at), `${found.event}: ${found.what}`,
  found.event !== 'leak' ? `${count(found.count)} of ${count(found.limit)}`
    : `grows by ${(found.what.startsWith('number of ') ? count : bytes)(found.per_hour)} an hour, for ${found.hours} h`].join('  '));

// The times of the findings that belong to a line of the history.
export function marks(data, [kind, name]) {
  const { findings: found, times } = data.sections.watcher.data;
  const belongs = ({ what }) => (kind === 'count' ? what === `number of ${name}` : what === `memory of ${name}`
    || (name === 'processes' && what.startsWith('process ')) || (name === 'ets' && what.startsWith('table ')));
  return found.filter((one) => belongs(one) && one.at >= times[0] && one.at <= times[times.length - 1]).map(({ at }) => at);
}
