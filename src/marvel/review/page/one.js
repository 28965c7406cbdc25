// One instance at a time, large enough to judge.

import { detail, picture } from "./api.js";
import { margins } from "./chart.js";
import { $, LONG, chance, count, make, soft } from "./dom.js";
import { state } from "./words.js";

const LARGE = 1024;
const LARGEST = 2048;
const TINY = 16; // pictures up to this size are shown with their pixels sharp
const SMALL = 64; // and up to this size when looked at closer
const GROWTH = 12; // how many times its own size a picture is shown at most
const LEAST = 320; // but never smaller than this
const AHEAD = 6;
const PATIENCE = 80; // milliseconds until the picture before gives way to "Loading"

export class One {
  constructor(app) {
    this.app = app;
    this.showing = null;
    $("stage").addEventListener("click", () => this.look());
    this.swipe();
  }

  async show(item) {
    const { run } = this.app;
    const changed = this.showing !== item.index;
    this.showing = item.index;
    if (changed) this.close();
    this.showName("given", run.classes[item.given]);
    this.showName("suggested", item.suggested === null ? "none" : run.classes[item.suggested]);
    $("id").replaceChildren(...soft(item.id));
    $("rank").textContent = `${count(item.rank)} of ${count(this.app.list.filter.scope === "all" ? run.all : run.progress.listed)}`;
    $("removed-row").hidden = !item.removed_at;
    $("removed").textContent = `in epoch ${item.removed_at}`;
    $("returned-row").hidden = !item.returned_at;
    $("returned").textContent = `in epoch ${item.returned_at}`;
    $("odds").replaceChildren(...odds(item));
    this.showState(item);
    const asked = [picture(item.index, LARGE), detail(item.index).catch(() => null)];
    this.preload();
    // Nobody may judge the picture before by the labels of this one.
    clearTimeout(this.late);
    if (changed) this.late = setTimeout(() => $("stage").classList.add("waiting"), PATIENCE);
    const [address, known] = await Promise.all(asked);
    if (this.showing !== item.index) return;
    await this.showPicture(item, address);
    this.showDetail(item, known, Boolean(address));
    clearTimeout(this.late);
    $("stage").classList.remove("waiting");
  }

  showName(id, text) {
    $(id).replaceChildren(...soft(text));
    $(id).classList.toggle("long", text.length >= LONG);
  }

  showState(item) {
    $("state").hidden = !item.action;
    $("state").className = `state ${item.action ?? ""}`;
    $("state").replaceChildren(...state(item, this.app.run.classes));
  }

  async showPicture(item, address) {
    const image = $("picture");
    image.hidden = !address;
    if (!address || image.src === address) return;
    image.src = address;
    image.alt = `Instance ${item.id}`;
    await image.decode().catch(() => {});
    const longest = Math.max(image.naturalWidth, image.naturalHeight);
    image.classList.toggle("sharp", longest <= TINY);
    image.classList.toggle("small", longest <= SMALL);
    image.style.maxWidth = image.style.maxHeight = `${Math.max(LEAST, GROWTH * longest)}px`;
  }

  showDetail(item, known, pictured) {
    const fields = Object.entries(known?.fields ?? {});
    fill($("fields"), pictured ? [] : fields);
    fill($("fields-beside"), pictured ? fields : []);
    $("nothing").hidden = pictured || fields.length > 0;
    $("margins-figure").hidden = !known?.margins.length;
    if (known?.margins.length) $("margins").replaceChildren(margins(known.margins, item, this.app.run.warmup));
  }

  preload() {
    const { items } = this.app.list;
    for (let place = this.app.at - 1; place <= this.app.at + AHEAD; place++) {
      if (!items[place]) continue;
      picture(items[place].index, LARGE);
      detail(items[place].index).catch(() => {});
    }
    if (this.app.at > items.length - 20) this.app.list.more().catch(() => {});
  }

  // Closer: at its full size, to be moved around in.
  async look() {
    const stage = $("stage");
    if ($("picture").hidden) return;
    if (!stage.classList.toggle("close")) return;
    const index = this.showing;
    const address = await picture(index, LARGEST);
    if (address && this.showing === index && stage.classList.contains("close")) $("picture").src = address;
  }

  close() {
    $("stage").classList.remove("close");
    $("stage").scrollTo(0, 0);
  }

  swipe() {
    let start = null;
    const stage = $("stage");
    stage.addEventListener("touchstart", (event) => (start = event.touches.length === 1 ? event.touches[0] : null), { passive: true });
    stage.addEventListener("touchend", (event) => {
      if (!start || stage.classList.contains("close")) return;
      const [dx, dy] = [event.changedTouches[0].clientX - start.clientX, event.changedTouches[0].clientY - start.clientY];
      if (Math.abs(dx) > 60 && Math.abs(dx) > 2 * Math.abs(dy)) this.app.step(dx < 0 ? 1 : -1);
    });
  }
}

function odds(item) {
  if (item.probability === null && item.quality === null) return [];
  if (item.probability === null) return [make("span", {}, `quality ${item.quality.toFixed(1).replace("-", "−")}`)];
  const bar = make("span", { class: "meter", "aria-hidden": "true" }, make("i"));
  bar.firstChild.style.width = `${100 * item.probability}%`;
  return [bar, make("span", {}, `${chance(item.probability)} likely to be wrong`)];
}

function fill(list, fields) {
  list.hidden = !fields.length;
  list.replaceChildren(
    ...fields.map(([name, value]) => make("div", {}, make("dt", {}, make("bdi", {}, ...soft(name))), make("dd", {}, make("bdi", {}, value)))),
  );
}
