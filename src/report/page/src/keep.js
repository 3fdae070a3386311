// On a page that is drawn again and again, what has the same key is the same element: it keeps its order,
// its filter, what it is zoomed to, and the focus.

let kept = null;
export const keep = () => { kept = new Map(); };

// What `make` returned for this key: a new one, unless it is kept.
export function again(key, make, update = () => {}) {
  if (!kept) return make();
  if (kept.has(key)) update(kept.get(key));
  else kept.set(key, make());
  return kept.get(key);
}
