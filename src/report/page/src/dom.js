// Elements. Text goes in as text nodes only, so that no name of a node is ever markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

let ids = 0;
export const newId = (prefix) => `${prefix}-${(ids += 1)}`;

// Draws anew whenever the width changes.
export function drawn(className, draw) {
  const box = h('div', { class: `chart ${className}` });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    draw(box, width);
  }).observe(box);
  return box;
}

// The width of a text, in pixels, about: names are in one font.
export const fits = (text, width, char = 6.7) => {
  const most = Math.floor(width / char);
  if (text.length <= most) return text;
  return most < 4 ? '' : `${text.slice(0, most - 1)}…`;
};
