// Numbers for people, in the units of the calls of sonde.

export const count = (n) => (n === null || n === undefined ? '' : Math.round(n).toLocaleString('en-US'));

export function bytes(n) {
  if (n === null || n === undefined) return '';
  if (n < 0) return `−${bytes(-n)}`;
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let size = n / 1024;
  let unit = 0;
  while (size >= 1023.95 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(1)} ${units[unit]}`;
}

export const someProcesses = (n) => `${count(n)} ${n === 1 ? 'process' : 'processes'}`;

export const percent = (share) => (share === null || share === undefined ? '' : `${(100 * share).toFixed(1)} %`);

export const signed = (n, format) => (n > 0 ? `+${format(n)}` : n < 0 ? `−${format(-n)}` : '');

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${(ms / 1000).toFixed(1)} s`;
  const parts = [['d', 86400], ['h', 3600], ['min', 60]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  let left = seconds;
  return parts
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const n = Math.floor(left / size);
      left -= n * size;
      return `${n} ${unit}`;
    })
    .join(' ');
}

export const time = (ms) => new Date(ms).toISOString().replace('T', ' ').slice(0, 19);
// On an axis that spans so many milliseconds.
export const clock = (ms, span) => (span < 600000 ? new Date(ms).toISOString().slice(11, 19)
  : span < 172800000 ? new Date(ms).toISOString().slice(11, 16) : new Date(ms).toISOString().slice(5, 10));

export const words = (name) => name.replaceAll('_', ' ');
