// Choosing a class by typing some of its name.

import { $, make, soft } from "./dom.js";

const SHOWN = 60;

export class Chooser {
  constructor(app) {
    this.app = app;
    this.recent = [];
    this.search = $("search");
    this.search.addEventListener("input", () => this.show());
    this.search.addEventListener("keydown", (event) => this.key(event));
    $("options").addEventListener("click", (event) => this.pick(event.target.closest("li")));
  }

  // Resolves to a class number, or null.
  ask(items) {
    this.items = items;
    this.search.value = "";
    this.show();
    $("chooser").showModal();
    this.search.focus();
    return new Promise((resolve) => {
      this.chosen = null;
      $("chooser").addEventListener("close", () => resolve(this.chosen), { once: true });
    });
  }

  show() {
    const { classes } = this.app.run;
    const only = this.items.length === 1 ? this.items[0] : null;
    const marks = new Map([
      [only?.given, "given"],
      [only?.suggested, "suggested"],
    ]);
    // Nothing is picked before something is typed, so that Enter alone decides nothing.
    const typed = this.search.value.trim();
    const found = matches(classes, typed, this.recent).slice(0, SHOWN);
    $("options").replaceChildren(
      ...found.map((label, k) =>
        make(
          "li",
          { role: "option", id: `option-${k}`, "data-label": label, "aria-selected": k === 0 && typed ? "true" : "false" },
          make("bdi", {}, ...soft(classes[label])),
          marks.has(label) ? make("small", { class: marks.get(label) }, marks.get(label)) : null,
        ),
      ),
    );
    if (!found.length) $("options").append(make("li", { class: "none" }, "No class has this in its name."));
    this.search.setAttribute("aria-activedescendant", found.length && typed ? "option-0" : "");
  }

  key(event) {
    const options = [...$("options").querySelectorAll("[role=option]")];
    const now = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "Enter") {
      event.preventDefault();
      this.pick(options[now]);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = options[now + (event.key === "ArrowDown" ? 1 : -1)];
      if (!next) return;
      options[now]?.setAttribute("aria-selected", "false");
      next.setAttribute("aria-selected", "true");
      next.scrollIntoView({ block: "nearest" });
      this.search.setAttribute("aria-activedescendant", next.id);
    }
  }

  pick(option) {
    if (!option?.dataset.label) return;
    this.chosen = Number(option.dataset.label);
    this.recent = [this.chosen, ...this.recent.filter((label) => label !== this.chosen)].slice(0, 5);
    $("chooser").close();
  }
}

// Names that are what was typed, that begin with it, then those with a word that does, then those that hold it, then its letters in order.
export function matches(classes, typed, recent = []) {
  const text = typed.toLowerCase();
  const all = classes.map((_, label) => label);
  if (!text) return [...recent, ...all.filter((label) => !recent.includes(label))];
  const worth = (label) => {
    const own = classes[label].toLowerCase();
    if (own === text) return 0;
    if (own.startsWith(text)) return 1;
    if (own.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(text))) return 2;
    if (own.includes(text)) return 3;
    let place = -1;
    for (const letter of text) {
      place = own.indexOf(letter, place + 1);
      if (place < 0) return null;
    }
    return 4;
  };
  return all
    .map((label) => [worth(label), label])
    .filter(([value]) => value !== null)
    .sort(([a, i], [b, j]) => a - b || i - j)
    .map(([, label]) => label);
}
