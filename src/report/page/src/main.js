// The page of a report: the data in the element `data`, section by section.

import { fact } from './facts.js';
import { h } from './dom.js';
import { count, duration, percent, time } from './format.js';
import { sections } from './sections.js';
import { short, TITLES } from './titles.js';

const data = JSON.parse(document.getElementById('data').textContent);

function facts() {
  const { diagnosis, node } = data.sections;
  const found = [];
  if (diagnosis?.data) {
    for (const [name, n, limit] of diagnosis.data.counts) {
      found.push(fact(name, count(n), `of ${count(limit)}`, n / limit));
    }
  }
  if (node?.data?.usage) {
    const normal = node.data.usage.slice(0, node.data.schedulers).map(([, share]) => share);
    const busy = normal.reduce((a, b) => a + b, 0) / Math.max(1, node.data.online);
    found.push(fact('schedulers', percent(busy), `busy, of ${node.data.online}`, busy));
  }
  if (node?.data && node.data.run_queue !== null) found.push(fact('run queue', count(node.data.run_queue), 'processes and ports'));
  return h('dl', { class: 'facts' }, found);
}

function header() {
  const node = data.sections.node?.data;
  const parts = [`${time(data.at)} UTC`, node && `OTP ${node.otp}, ${node.emulator}`, node && node.up_ms !== null && `up ${duration(node.up_ms)}`,
    node && node.system, data.outside ?? (data.native === 'native' ? 'read natively' : 'portable path'), data.host && `on ${data.host}`];
  return h('header', {}, h('h1', {}, data.node), h('p', { class: 'dim' }, parts.filter(Boolean).join(' · ')), facts());
}

function section(name, { source, draw }) {
  const of = data.sections[source];
  const notes = (of?.cut || []).map((text) => h('p', { class: 'note' }, `Not complete: ${text}.`));
  let content;
  if (of?.failed) content = h('p', { class: 'note' }, `Not in this report: ${of.failed}.`);
  else if (of || source === null) {
    try {
      content = draw(of?.data, data);
    } catch (error) {
      content = h('p', { class: 'note' }, `This section could not be drawn: ${error.message}.`);
    }
  } else content = h('p', { class: 'note' }, 'Not in this report.');
  return h('section', { id: name, 'aria-labelledby': `${name}-title` },
    h('h2', { id: `${name}-title` }, TITLES[name]), notes, content);
}

function navigation(names) {
  return h('nav', { 'aria-label': 'Sections' }, h('ul', {}, names.map((name) => {
    const missing = data.sections[sections[name].source]?.failed;
    return h('li', {}, h('a', { href: `#${name}`, class: missing && 'missing' }, short(name)));
  })));
}

document.title = `${data.node} – sonde report`;
const names = Object.keys(sections);
document.getElementById('page').replaceWith(
  h('a', { class: 'skip', href: '#main' }, 'Skip to the report'), header(), navigation(names),
  h('main', { id: 'main', tabindex: -1 }, names.map((name) => section(name, sections[name]))));
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
