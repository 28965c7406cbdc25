// Which instances to look at.

import { get } from "./api.js";
import { $, count, make, pair as pairOf, plural } from "./dom.js";
import { CLEAR } from "./list.js";

const FIELDS = { state: "f-state", given: "f-given", suggested: "f-suggested", low: "f-low", high: "f-high" };
const PAIRS = 40;

export class FilterSheet {
  constructor(app) {
    this.app = app;
    for (const side of ["f-given", "f-suggested"]) {
      const options = app.run.classes.map((text, label) => make("option", { value: label }, text));
      $(side).append(make("option", { value: "" }, "any"), ...options);
    }
    $("f-probability").hidden = !app.run.estimated;
    for (const id of [...Object.values(FIELDS), "f-all"]) $(id).addEventListener("change", () => this.changed());
    for (const id of ["f-low", "f-high"]) $(id).addEventListener("input", () => this.said());
    $("f-clear").addEventListener("click", () => this.set(CLEAR));
    $("pairs").addEventListener("click", (event) => this.pair(event.target.closest("button")));
    this.fill(app.list.filter);
  }

  async open() {
    this.fill(this.app.list.filter);
    $("filter").showModal();
    this.showPairs(await get("/api/pairs").catch(() => this.app.run.pairs));
  }

  fill(filter) {
    for (const [key, id] of Object.entries(FIELDS)) $(id).value = filter[key];
    $("f-all").checked = filter.scope === "all";
    this.said();
  }

  said() {
    $("f-low-said").textContent = `${$("f-low").value}%`;
    $("f-high-said").textContent = `${$("f-high").value}%`;
    const { list } = this.app;
    $("matching").textContent = `${plural(list.total, "instance matches", "instances match")}`;
    $("open-filter").classList.toggle("on", list.narrowed);
    $("open-filter").setAttribute("aria-label", list.narrowed ? "Filter, in use" : "Filter");
  }

  async changed() {
    const filter = Object.fromEntries(Object.entries(FIELDS).map(([key, id]) => [key, $(id).value]));
    await this.set({ ...filter, low: Number(filter.low), high: Number(filter.high), scope: $("f-all").checked ? "all" : "listed" });
  }

  async set(filter) {
    await this.app.reload(filter);
    this.fill(this.app.list.filter);
    this.showPairs(this.pairs ?? this.app.run.pairs);
  }

  showPairs(pairs) {
    this.pairs = pairs;
    const { classes } = this.app.run;
    const { given, suggested } = this.app.list.filter;
    $("pairs-title").hidden = !pairs.length;
    $("pairs").replaceChildren(
      ...pairs.slice(0, PAIRS).map((pair) =>
        make(
          "li",
          {},
          make(
            "button",
            {
              type: "button",
              "data-given": pair.given,
              "data-suggested": pair.suggested,
              "aria-pressed": String(pair.given) === String(given) && String(pair.suggested) === String(suggested) ? "true" : "false",
            },
            make("span", {}, ...pairOf(classes[pair.given], classes[pair.suggested])),
            make("span", { class: "n", title: "undecided of all" }, pair.left ? `${count(pair.left)}` : "done"),
          ),
        ),
      ),
    );
  }

  pair(button) {
    if (!button) return;
    const pressed = button.getAttribute("aria-pressed") === "true";
    const { given, suggested } = pressed ? CLEAR : button.dataset;
    this.set({ ...this.app.list.filter, given, suggested });
  }
}
