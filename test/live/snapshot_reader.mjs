// snapshot_reader.mjs FILE [all]      prints what Chrome's own loader reads from a heap snapshot
// snapshot_reader.mjs FILE FILE diff  prints what its comparison view would show of two
//
// SONDE_LOADER names that loader, as scripts/setup snapshot bundled it. Prints Erlang terms, each
// ended by a full stop, for file:consult/1. Each fault of a file is a `problem'.
import fs from 'node:fs';
import process from 'node:process';
import {pathToFileURL} from 'node:url';

// The loader uses this function, and Debian 12's Node is too old to have it.
Promise.withResolvers ??= function() {
  let resolve, reject;
  const promise = new Promise((...both) => [resolve, reject] = both);
  return {promise, resolve, reject};
};

const {HeapSnapshot, HeapSnapshotLoader} = await import(pathToFileURL(process.env.SONDE_LOADER));

// Files that do not fit into one string are not parsed as a whole.
const WHOLE_MAX = 400 * 1024 * 1024;

const out = [];
const say = (...elements) => out.push(`{${elements.join(', ')}}.\n`);

const escaped = (c) => /[ !#-[\]-}]/.test(c) ? c : `\\x{${c.codePointAt(0).toString(16)}}`;
const text = (string) => `"${[...string].map(escaped).join('')}"`;

const problem = (why) => say('problem', text(String(why)));

// Feeds the file in pieces, as the browser does.
async function load(file) {
  const loader = new HeapSnapshotLoader.HeapSnapshotLoader({sendEvent() {}});
  for await (const chunk of fs.createReadStream(file, {encoding: 'utf8', highWaterMark: 65536})) {
    loader.write(chunk);
  }
  loader.close();
  const {port1, port2} = new MessageChannel();
  new HeapSnapshot.SecondaryInitManager(port2);
  try {
    return await loader.buildSnapshot(port1);
  } finally {
    port1.close();
  }
}

// Finds faults that the loader accepts silently.
function checkForm(file) {
  if (fs.statSync(file).size > WHOLE_MAX) {
    say('unchecked', text('form: the file is too large'));
    return;
  }
  const whole = JSON.parse(fs.readFileSync(file, 'utf8'));
  const {meta, node_count: nodeCount, edge_count: edgeCount} = whole.snapshot;
  const width = meta.node_fields.length;
  const field = (name) => meta.node_fields.indexOf(name);
  const {nodes, edges, strings} = whole;
  const expect = (good, why) => good || problem(why);

  expect(Object.keys(whole)[0] === 'snapshot', 'the header is not first');
  expect(Object.keys(whole).at(-1) === 'strings', 'the strings are not last');
  expect(nodes.length === width * nodeCount, `${nodes.length} numbers for ${nodeCount} nodes`);
  expect(edges.length === 3 * edgeCount, `${edges.length} numbers for ${edgeCount} edges`);
  expect(strings.every((s) => typeof s === 'string'), 'a string is none');
  const isWord = (n) => Number.isInteger(n) && n >= 0 && n < 2 ** 32;
  expect(nodes.every(isWord), 'a field of a node does not fit 32 bits');
  expect(edges.every(isWord), 'a field of an edge does not fit 32 bits');

  const ids = new Set();
  const seen = {};
  let counted = 0;
  const once = (why, ordinal) => seen[why] ??= problem(`${why} (node ${ordinal})`) ?? true;
  for (let i = 0; i < nodeCount; i++) {
    const at = (name) => nodes[i * width + field(name)];
    at('type') < meta.node_types[0].length || once('no such type', i);
    at('name') < strings.length || once('no such name', i);
    !ids.has(at('id')) || once('the id is not the only one', i);
    ids.add(at('id'));
    for (let end = counted + at('edge_count'); counted < end; counted++) {
      const [type, name, to] = edges.slice(counted * 3, counted * 3 + 3);
      const named = meta.edge_types[0][type];
      named !== undefined || once('an edge of no type', i);
      ['element', 'hidden'].includes(named) || name < strings.length ||
        once('an edge of no name', i);
      to % width === 0 && to < nodes.length || once('an edge to nowhere', i);
      to !== 0 || once('an edge to the root', i);
    }
  }
  expect(counted === edgeCount, `the nodes have ${counted} edges, not ${edgeCount}`);
  expect(meta.node_types[0][nodes[field('type')]] === 'synthetic', 'the root is not synthetic');
}

function describe(snapshot, all) {
  const root = snapshot.rootNode();
  root.ordinal() === 0 || problem('the root is not node 0');
  say('nodes', snapshot.nodeCount);
  say('total', snapshot.totalSize);
  for (let edges = root.edges(); edges.hasNext(); edges.next()) {
    const node = edges.edge.node();
    say('child', text(edges.edge.name()), text(node.name()), node.id(), node.selfSize(),
        node.retainedSize());
  }
  const node = snapshot.createNode(0);
  const ordinals = Array.from({length: snapshot.nodeCount - 1}, (_, i) => i + 1);
  const {nodes, nodeFieldCount, nodeIdOffset, retainedSizes} = snapshot;
  const id = (ordinal) => nodes.getValue(ordinal * nodeFieldCount + nodeIdOffset);
  ordinals.sort((a, b) => retainedSizes[b] - retainedSizes[a] || id(a) - id(b));
  for (const ordinal of all ? ordinals : ordinals.slice(0, 10)) {
    node.nodeIndex = ordinal * nodeFieldCount;
    say('largest', node.id(), text(node.name()), node.selfSize(), node.retainedSize(),
        node.distance());
  }
  for (const {name, count, self} of Object.values(snapshot.getAggregatesByClassKey(false))) {
    say('class', text(name), count, self);
  }
}

function compare(before, after) {
  const aggregates = before.aggregatesForDiff(after.interfaceDefinitions());
  for (const change of Object.values(after.calculateSnapshotDiff(1, aggregates))) {
    say('changed', text(change.name), change.addedCount, change.removedCount, change.addedSize,
        change.removedSize, `[${change.addedIds}]`, `[${change.deletedIds}]`);
  }
}

// The loader warns of nodes that the root does not reach.
console.warn = problem;
const [file, ...more] = process.argv.slice(2);
try {
  if (more[1] === 'diff') {
    compare(await load(file), await load(more[0]));
  } else {
    checkForm(file);
    describe(await load(file), more[0] === 'all');
  }
} catch (error) {
  problem(error.stack ?? error);
}
process.stdout.write(out.join(''));
