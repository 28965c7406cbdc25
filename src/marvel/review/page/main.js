// The review page: what is shown, what the keys do, and how decisions are made.

import { Conflict, Locked, get, post, who } from "./api.js";
import { Chooser } from "./chooser.js";
import { $, LONG, count, make, plural, soft } from "./dom.js";
import { FilterSheet } from "./filter.js";
import { Grid } from "./grid.js";
import { CLEAR, List } from "./list.js";
import { One } from "./one.js";
import { SAID, state } from "./words.js";

const POLL = 4000;
const NOTICE = 3500;

class App {
  constructor() {
    this.list = new List();
    this.at = 0;
    this.now = "one";
    this.busy = false;
  }

  async start() {
    this.run = await get("/api/run");
    this.position = this.run.progress.position;
    document.title = `${this.run.name} · Marvel review`;
    $("name").textContent = this.run.name;
    $("command").textContent = `marvel export ${quoted(this.run.run)} --out corrected`;
    this.one = new One(this);
    this.grid = new Grid(this);
    this.chooser = new Chooser(this);
    this.filter = new FilterSheet(this);
    this.listen();
    this.progress(this.run.progress);
    await this.reload(this.list.filter);
    this.filter.said();
    setInterval(() => document.visibilityState === "visible" && this.poll(), POLL);
    addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.poll());
  }

  // ---------------------------------------------------------- what is shown

  async reload(filter) {
    await this.list.load(filter);
    this.at = 0;
    this.grid.clear();
    await this.settle();
  }

  // Where there is nothing to look at, say so; else show it.
  async settle() {
    if (!this.list.items.length || (this.list.filter.state === "undecided" && (await this.list.nextUndecided(0)) < 0)) this.finish();
    else this.show();
  }

  view(which) {
    this.now = which;
    this.settle();
  }

  show() {
    const item = this.list.items[this.at];
    $("done").hidden = true;
    $("one").hidden = this.now !== "one";
    $("grid").hidden = this.now !== "grid";
    document.body.dataset.view = this.now;
    $("toggle-view").disabled = false;
    $("toggle-view").textContent = this.now === "one" ? "Grid" : "One by one";
    $("actions").hidden = false;
    if (this.now === "grid") {
      this.grid.show();
      this.grid.focus(this.at);
    } else {
      this.one.show(item).catch((error) => this.failed(error));
    }
    this.showActions();
  }

  showActions() {
    const items = this.targets();
    const [first] = items;
    const alike = (key) => items.length && items.every((item) => item[key] === first[key]);
    const said = (key) => (alike(key) && first[key] !== null ? this.run.classes[first[key]] : items.length > 1 ? "each" : "");
    const put = (id, text) => {
      $(id).querySelector("bdi").replaceChildren(...soft(text));
      $(id).querySelector("bdi").classList.toggle("long", text.length >= LONG);
      $(id).title = text.length >= LONG ? text : ""; // it may be cut short
    };
    put("keep", said("given"));
    put("accept", said("suggested"));
    $("accept").disabled = !items.some((item) => item.suggested !== null);
    for (const action of ["keep", "accept", "choose", "aside"]) {
      $(action).setAttribute("aria-pressed", items.length === 1 && first.action === action ? "true" : "false");
    }
    put("choose", items.length === 1 && first.action === "choose" ? ` ${this.run.classes[first.label]}` : "…");
    $("previous").disabled = this.now === "one" && this.at === 0;
  }

  finish() {
    for (const id of ["one", "grid", "actions"]) $(id).hidden = true;
    document.body.dataset.view = "done";
    $("done").hidden = false;
    const { progress } = this.run;
    const left = progress.listed - progress.decided;
    const whole = left === 0;
    const words = this.list.filter.state === "undecided" ? "Nothing is left in this filter" : "Nothing matches this filter";
    const all = progress.listed > 1 ? `All ${count(progress.listed)} suspects are decided` : progress.listed ? "The one suspect is decided" : "There are no suspects";
    $("done-title").textContent = whole ? all : words;
    const none = "No label of this run looks wrong.";
    $("done-text").textContent = !whole ? `${plural(left, "suspect is", "suspects are")} still undecided.` : progress.listed ? "" : none;
    $("tally").hidden = !progress.decided;
    $("tally").replaceChildren(
      ...Object.entries(SAID).map(([action, said]) =>
        make("div", { class: action }, make("dt", {}, said), make("dd", {}, count(progress.actions[action]))),
      ),
    );
    $("done-next").hidden = progress.listed > 0 && !progress.decided;
    $("again").textContent = !whole ? "Clear the filter" : progress.listed ? "Look through them again" : "Look at all instances";
    $("again").dataset.state = whole ? "any" : "undecided";
    $("again").dataset.scope = progress.listed ? "listed" : "all";
    $("undo-last").hidden = !progress.decided;
    $("toggle-view").disabled = true;
    $("main").focus();
  }

  progress(progress) {
    this.run.progress = progress;
    const { listed, decided, actions } = progress;
    $("count").replaceChildren(make("b", {}, count(decided)), ` of ${count(listed)} decided`);
    $("track").setAttribute("aria-valuenow", decided);
    $("track").setAttribute("aria-valuemax", listed);
    $("track").replaceChildren(
      ...Object.keys(SAID).map((action) => {
        const part = make("i", { class: action });
        part.style.width = `${listed ? (100 * actions[action]) / listed : 0}%`;
        return part;
      }),
    );
  }

  // ---------------------------------------------------------- deciding

  targets() {
    if (this.now === "grid") return this.grid.targets();
    return this.list.items[this.at] ? [this.list.items[this.at]] : [];
  }

  async decide(action) {
    const items = this.targets().filter((item) => action !== "accept" || item.suggested !== null);
    if (this.busy || !items.length) return;
    let label = null;
    if (action === "choose") {
      label = await this.chooser.ask(items);
      if (label === null) return;
    }
    await this.write(items.map((item) => change(item, action, label)));
  }

  // Write, then go on. Keys pressed meanwhile are for a picture nobody has seen yet, so they are passed over.
  async write(changes) {
    if (this.busy) return;
    this.busy = true;
    try {
      const said = await post("/api/decide", { who: who(), changes });
      this.learn(said);
      this.tell(said.entries);
      await this.goOn(said.entries);
    } catch (error) {
      if (error instanceof Conflict) await this.conflict(error, changes);
      else this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  async goOn(entries) {
    if (this.now === "grid") {
      const last = Math.max(...entries.map((entry) => this.list.items.findIndex((item) => item.index === entry.index)));
      this.grid.selectNone();
      this.at = last;
    }
    const next = await this.following();
    if (next < 0) return this.finish();
    this.at = next;
    this.show();
  }

  // Who looks at the undecided wants the next of those; who looks at all wants the next, whatever it is.
  async following() {
    const { list } = this;
    if (list.filter.state === "undecided") return list.nextUndecided(this.at + 1);
    if (this.at + 1 >= list.items.length) await list.more();
    return this.at + 1 < list.items.length ? this.at + 1 : list.nextUndecided(0);
  }

  async conflict(error, changes) {
    this.learn({ entries: error.now, progress: error.progress });
    this.refreshView();
    const [first] = error.now;
    const item = this.list.byIndex.get(first.index) ?? { given: 0, ...first };
    const others = error.now.length - 1;
    const parts = first.action ? state({ ...item, ...first }, this.run.classes) : ["undone"];
    $("conflict-text").replaceChildren(
      "In another tab this was ",
      ...parts,
      ` ${ago(first.at)}`,
      others ? `, and ${plural(others, "other", "others")} with it. ` : ". ",
      "Yours was not saved.",
    );
    $("conflict").returnValue = "leave";
    $("conflict").showModal();
    await new Promise((resolve) => $("conflict").addEventListener("close", resolve, { once: true }));
    this.busy = false;
    if ($("conflict").returnValue !== "replace") return;
    const versions = new Map(error.now.map((entry) => [entry.index, entry.version]));
    await this.write(changes.map((one) => ({ ...one, version: versions.get(one.index) ?? one.version })));
  }

  async undo() {
    if (this.busy) return;
    this.busy = true;
    try {
      const said = await post("/api/undo", { who: who() });
      this.learn(said);
      if (!said.entries.length) return this.note("There is nothing of yours to undo.");
      this.note(said.entries.length === 1 ? "Undone." : `Undone: ${plural(said.entries.length, "decision", "decisions")}.`);
      const place = this.list.items.findIndex((item) => item.index === said.entries[0].index);
      if (place < 0) await this.reload(this.list.filter);
      else {
        this.at = place;
        this.show();
      }
    } catch (error) {
      if (error instanceof Conflict) {
        this.learn({ entries: error.now, progress: error.progress });
        this.refreshView();
        this.note("Not undone: it was decided anew in another tab.", true);
      } else this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  // What the server said was decided, by us or by others.
  learn({ entries, progress }) {
    for (const item of this.list.apply(entries)) this.grid.update(item);
    this.progress(progress);
    this.position = Math.max(this.position, ...entries.map((entry) => entry.position));
  }

  async poll() {
    try {
      const said = await get(`/api/changes?since=${this.position}`);
      if (said.entries.length) {
        this.learn(said);
        this.refreshView();
      }
      if ($("notice").dataset.lost) this.note("The server answers again.");
    } catch (error) {
      this.failed(error);
    }
  }

  refreshView() {
    const item = this.list.items[this.at];
    if (item && this.now === "one" && !$("one").hidden) this.one.showState(item);
    if (!$("actions").hidden) this.showActions();
  }

  // ---------------------------------------------------------- moving

  async step(by) {
    if ($("done").hidden === false) return;
    const to = this.at + by;
    if (to >= this.list.items.length && !this.list.ended) await this.list.more();
    if (to < 0) return;
    if (to >= this.list.items.length) {
      if (this.now === "one") this.note("This is the last one.");
      return;
    }
    if (this.now === "grid") return this.grid.focus(to);
    this.at = to;
    this.show();
  }

  // ---------------------------------------------------------- saying

  tell(entries) {
    const [first] = entries;
    const item = this.list.byIndex.get(first.index);
    if (entries.length > 1) this.note(`${SAID[first.action]}: ${plural(entries.length, "instance", "instances")}. U undoes it.`);
    else if (item) this.note(make("span", {}, ...state(item, this.run.classes)));
  }

  note(words, lasting = false) {
    clearTimeout(this.noteTimer);
    const notice = $("notice");
    delete notice.dataset.lost;
    notice.replaceChildren(words);
    notice.classList.add("shown");
    notice.classList.toggle("lasting", lasting);
    if (!lasting) this.noteTimer = setTimeout(() => notice.classList.remove("shown"), NOTICE);
  }

  failed(error) {
    if (error instanceof Locked) return locked();
    this.note(error.message, true);
    $("notice").dataset.lost = "yes";
  }

  // ---------------------------------------------------------- keys and buttons

  listen() {
    for (const action of ["keep", "accept", "choose", "aside"]) $(action).addEventListener("click", () => this.decide(action));
    $("undo").addEventListener("click", () => this.undo());
    $("undo-last").addEventListener("click", () => this.undo());
    $("next").addEventListener("click", () => this.step(1));
    $("previous").addEventListener("click", () => this.step(-1));
    $("toggle-view").addEventListener("click", () => this.toggle());
    $("open-filter").addEventListener("click", () => this.filter.open());
    $("open-help").addEventListener("click", () => $("help").showModal());
    for (const dialog of document.querySelectorAll("dialog")) {
      // The browser closes on Esc too, but a moment later, and the next key would still go to the dialog.
      dialog.addEventListener("keydown", (event) => event.key === "Escape" && (event.preventDefault(), dialog.close()));
      dialog.addEventListener("click", (event) => event.target === dialog && dialog !== $("conflict") && dialog.close());
    }
    $("again").addEventListener("click", () => {
      const { state, scope } = $("again").dataset;
      this.reload({ ...CLEAR, state, scope }).then(() => this.filter.fill(this.list.filter));
    });
    $("copy").addEventListener("click", () => this.copy());
    addEventListener("keydown", (event) => this.key(event));
  }

  toggle() {
    this.view(this.now === "one" ? "grid" : "one");
  }

  async copy() {
    await navigator.clipboard.writeText($("command").textContent).catch(() => {});
    this.note("Copied.");
  }

  key(event) {
    // All there is to type into is in dialogs. (Focus may linger in one that has just been closed.)
    if (document.querySelector("dialog[open]")) return;
    const undoing = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
    if (!undoing && (event.ctrlKey || event.metaKey || event.altKey)) return;
    const pressed = undoing ? "u" : event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const act = this.keys()[pressed];
    if (!act) return;
    // A button in focus answers to Space and Enter itself.
    if ((pressed === " " || pressed === "Enter") && event.target.closest?.("button")) return;
    event.preventDefault();
    // Holding a key down moves on, but never decides.
    if (event.repeat && !pressed.startsWith("Arrow")) return;
    act();
  }

  keys() {
    const grid = this.now === "grid" && !$("grid").hidden;
    const one = this.now === "one" && !$("one").hidden;
    const shown = grid || one;
    const always = {
      u: () => this.undo(),
      f: () => this.filter.open(),
      g: () => shown && this.toggle(),
      "?": () => $("help").showModal(),
    };
    if (!shown) return always;
    const both = {
      ...always,
      a: () => this.decide("accept"),
      k: () => this.decide("keep"),
      c: () => this.decide("choose"),
      x: () => this.decide("aside"),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      n: () => this.step(1),
      p: () => this.step(-1),
    };
    if (one) return { ...both, " ": () => this.one.look(), Escape: () => this.one.close() };
    return {
      ...both,
      ArrowDown: () => this.step(this.grid.columns()),
      ArrowUp: () => this.step(-this.grid.columns()),
      " ": () => this.grid.toggle(this.at),
      Enter: () => this.view("one"),
      Escape: () => this.grid.selectNone(),
    };
  }
}

// Choosing the suggested label is accepting it, and choosing the given one is keeping it.
function change(item, action, label) {
  const { index, version } = item;
  if (action === "choose" && label === item.given) return { index, version, action: "keep" };
  if (action === "choose" && label === item.suggested) return { index, version, action: "accept" };
  return action === "choose" ? { index, version, action, label } : { index, version, action };
}

function ago(at) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(at)) / 1000));
  if (seconds < 60) return `${plural(seconds, "second", "seconds")} ago`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${plural(minutes, "minute", "minutes")} ago` : `on ${new Date(at).toLocaleString("en-GB")}`;
}

const quoted = (path) => (/^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`);

function locked() {
  for (const id of ["one", "grid", "done", "actions", "progress", "tools"]) $(id).hidden = true;
  $("locked").hidden = false;
  document.body.dataset.view = "done";
}

const app = new App();
// Whatever was not waited for still says what went wrong.
addEventListener("unhandledrejection", (event) => (event.preventDefault(), app.failed(event.reason)));
app.start().catch((error) => app.failed(error));
