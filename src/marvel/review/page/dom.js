// Making elements. Text is only ever set as text, so that nothing in the data becomes part of the page.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const count = (number) => number.toLocaleString("en-GB");

export const name = (kind, text) => make("bdi", { class: `label ${kind}` }, text);

// A probability is never said to be certain.
export const chance = (p) => (p > 0.99 ? ">99%" : p < 0.01 ? "<1%" : `${Math.round(100 * p)}%`);

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
