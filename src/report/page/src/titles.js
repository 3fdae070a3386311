// The names of the sections, and shorter ones for the links to them.

export const TITLES = {
  diagnosis: 'Diagnosis', memory: 'Memory', binaries: 'Binary memory', groups: 'Processes by application',
  processes: 'Largest processes', busy: 'Working now', waits: 'Which processes wait for which', heaps: 'What retains memory',
  stacks: 'Stacks', tables: 'Tables', ports: 'Ports', sockets: 'Sockets', allocators: 'Allocators', watcher: 'History',
  about: 'About this report', now: 'Over time', cores: 'Schedulers', cost: 'What this page costs',
};
const SHORT = {
  binaries: 'Binaries', groups: 'Applications', processes: 'Processes', busy: 'Work', waits: 'Waits', heaps: 'Heaps', about: 'About', cost: 'Cost',
};
export const short = (name) => SHORT[name] ?? TITLES[name];
