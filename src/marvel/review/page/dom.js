// Making elements. Text is only ever set as text, so that nothing in the data becomes part of the page.

export const LONG = 24; // names from this length on are set smaller

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

// A text that may be broken where its own marks part it: names of files and columns hold no spaces.
export function soft(text) {
  const parts = text.split(/(?<=[_/.\\-])(?=[^\s_/.\\-])/u);
  return parts.flatMap((part, k) => (k ? [make("wbr"), part] : [part]));
}

export const name = (kind, text) => make("bdi", { class: `label ${kind}`, title: text }, ...soft(text));

// The given label and, where there is one, the arrow to the suggested one.
export function pair(given, suggested) {
  if (suggested === null) return [name("given", given)];
  const arrow = make("span", { class: "to", "aria-hidden": "true" }, "→");
  const said = make("span", { class: "hidden" }, " suggested ");
  return [name("given", given), " ", make("span", { class: "toward" }, arrow, said, name("suggested", suggested))];
}

// A probability is never said to be certain.
export const chance = (p) => (p > 0.99 ? ">99%" : p < 0.01 ? "<1%" : `${Math.round(100 * p)}%`);

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
