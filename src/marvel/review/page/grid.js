// Many instances at a time: look over them, select those that go together, decide about all of them at once.

import { detail, picture } from "./api.js";
import { $, chance, count, make, pair, plural, soft } from "./dom.js";
import { state } from "./words.js";

const SMALL = 320;
const SHARP = 32; // pictures up to this size are shown with their pixels sharp: at this scale blur hides more
const FIELDS = 6;

export class Grid {
  constructor(app) {
    this.app = app;
    this.cards = new Map();
    this.selected = new Set();
    this.anchor = 0;
    $("cards").addEventListener("click", (event) => this.click(event));
    $("cards").addEventListener("dblclick", (event) => this.open(event));
    $("cards").addEventListener("focusin", (event) => this.focused(event));
    $("select-all").addEventListener("click", () => this.selectAll());
    $("select-none").addEventListener("click", () => this.selectNone());
    $("load-more").addEventListener("click", () => this.more());
    // It is `main` that scrolls: seen from the window, what lies below it does not come nearer.
    const ahead = (pixels) => ({ root: $("main"), rootMargin: `${pixels}px` });
    this.seen = new IntersectionObserver(
      (entries) => entries.forEach((entry) => entry.isIntersecting && this.reveal(entry.target)),
      ahead(600),
    );
    this.near = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.more(), ahead(1600));
    this.near.observe($("more"));
  }

  clear() {
    this.cards.clear();
    this.selected.clear();
    $("cards").replaceChildren();
  }

  show() {
    const { list } = this.app;
    const fresh = list.items.slice(this.cards.size).map((item) => this.card(item));
    $("cards").append(...fresh);
    $("more").hidden = list.ended;
    this.said();
    this.reach(this.cards.get(list.items[this.app.at]?.index));
  }

  // Of all cards one is reached by Tab; the arrows go on from there.
  reach(card) {
    if (this.reached) this.reached.tabIndex = -1;
    this.reached = card;
    if (card) card.tabIndex = 0;
  }

  async more() {
    const { list } = this.app;
    if ($("grid").hidden || list.ended) return;
    await list.more();
    this.show();
    // An observer tells of what comes near, not of what still is.
    this.near.unobserve($("more"));
    this.near.observe($("more"));
  }

  card(item) {
    const image = make("img", { alt: "", hidden: true });
    const card = make(
      "li",
      { class: "card", role: "option", "data-index": item.index, tabindex: "-1" },
      make("div", { class: "thumb" }, image, make("span", { class: "tick", "aria-hidden": "true" }, "✓")),
      make("p", { class: "labels" }),
      make("p", { class: "under" }),
    );
    this.cards.set(item.index, card);
    this.update(item);
    this.seen.observe(card);
    return card;
  }

  update(item) {
    const card = this.cards.get(item.index);
    if (!card) return;
    const { classes } = this.app.run;
    const [, labels, under] = card.children;
    labels.replaceChildren(...pair(classes[item.given], item.suggested === null ? null : classes[item.suggested]));
    const known = item.probability === null ? soft(item.id) : [`${chance(item.probability)} likely wrong`];
    under.replaceChildren(...(item.action ? state(item, classes) : known));
    card.classList.toggle("decided", Boolean(item.action));
    card.dataset.action = item.action ?? "";
    this.mark(item.index);
    const suggested = item.suggested === null ? "" : `, suggested ${classes[item.suggested]}`;
    card.setAttribute("aria-label", `${item.id}, given ${classes[item.given]}${suggested}${item.action ? ", decided" : ""}`);
  }

  mark(index) {
    const selected = this.selected.has(index);
    this.cards.get(index)?.classList.toggle("selected", selected);
    this.cards.get(index)?.setAttribute("aria-selected", selected ? "true" : "false");
  }

  async reveal(card) {
    this.seen.unobserve(card);
    const index = Number(card.dataset.index);
    const address = await picture(index, SMALL);
    const image = card.querySelector("img");
    if (!address) return this.describe(card, index);
    this.pictured = true;
    image.addEventListener("load", () => image.classList.toggle("sharp", Math.max(image.naturalWidth, image.naturalHeight) <= SHARP));
    image.src = address;
    image.hidden = false;
  }

  // Without a picture: the first of its fields, or at least its name.
  async describe(card, index) {
    const known = await detail(index).catch(() => null);
    const fields = Object.entries(known?.fields ?? {}).slice(0, FIELDS);
    const rows = fields.map(([key, value]) => make("div", {}, make("dt", {}, make("bdi", {}, ...soft(key))), make("dd", {}, make("bdi", {}, value))));
    const name = this.app.list.byIndex.get(index)?.id ?? String(index);
    const file = name.split("/").at(-1) || name;
    card.querySelector(".thumb").append(rows.length ? make("dl", { class: "some" }, ...rows) : make("bdi", { class: "id", title: name }, ...soft(file)));
    if (rows.length && !this.pictured) $("cards").classList.add("rows");
  }

  // ---------------------------------------------------------- focus and selection

  focused(event) {
    const card = event.target.closest(".card");
    if (!card) return;
    const place = this.app.list.items.findIndex((item) => item.index === Number(card.dataset.index));
    if (place >= 0) this.app.at = place;
    this.reach(card);
    this.app.showActions();
  }

  focus(place) {
    const item = this.app.list.items[place];
    const card = item && this.cards.get(item.index);
    if (!card) return;
    this.app.at = place;
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  }

  columns() {
    return getComputedStyle($("cards")).gridTemplateColumns.split(" ").length;
  }

  click(event) {
    const card = event.target.closest(".card");
    if (!card) return;
    const place = this.app.list.items.findIndex((item) => item.index === Number(card.dataset.index));
    if (event.shiftKey) this.range(place);
    else this.toggle(place);
    this.focus(place);
  }

  open(event) {
    if (event.target.closest(".card")) this.app.view("one");
  }

  toggle(place) {
    const item = this.app.list.items[place];
    if (!item) return;
    if (!this.selected.delete(item.index)) this.selected.add(item.index);
    this.anchor = place;
    this.mark(item.index);
    this.said();
  }

  range(place) {
    const [from, to] = [Math.min(this.anchor, place), Math.max(this.anchor, place)];
    for (const item of this.app.list.items.slice(from, to + 1)) {
      this.selected.add(item.index);
      this.mark(item.index);
    }
    this.said();
  }

  selectAll() {
    for (const item of this.app.list.items) {
      if (item.action) continue;
      this.selected.add(item.index);
      this.mark(item.index);
    }
    this.said();
  }

  selectNone() {
    const before = [...this.selected];
    this.selected.clear();
    for (const index of before) this.mark(index);
    this.said();
  }

  // Those to decide about: what is selected, or the one in focus.
  targets() {
    const { list, at } = this.app;
    if (this.selected.size) return list.items.filter((item) => this.selected.has(item.index));
    return list.items[at] ? [list.items[at]] : [];
  }

  said() {
    const chosen = this.selected.size;
    $("grid-count").textContent = chosen
      ? `${plural(chosen, "instance", "instances")} selected`
      : `${count(this.app.list.items.length)} of ${count(this.app.list.total)} shown`;
    $("select-none").hidden = !chosen;
    this.app.showActions();
  }
}
