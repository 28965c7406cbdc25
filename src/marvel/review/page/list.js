// The instances that match the filter, as far as they are loaded, and what is decided about each.

import { get } from "./api.js";

const PAGE = 60;

export const CLEAR = { scope: "listed", state: "undecided", given: "", suggested: "", low: 0, high: 100 };

export class List {
  constructor() {
    this.filter = readFilter();
    this.forget();
  }

  forget() {
    this.items = [];
    this.byIndex = new Map();
    this.total = 0;
    this.ended = false;
    this.loading = null;
  }

  get narrowed() {
    return Object.keys(CLEAR).some((key) => String(this.filter[key]) !== String(CLEAR[key]));
  }

  async load(filter) {
    this.filter = { ...filter };
    writeFilter(this.filter);
    this.forget();
    return this.more();
  }

  // One request at a time: whoever asks meanwhile waits for the same.
  more() {
    if (!this.ended && !this.loading) this.loading = this.fetchPage().finally(() => (this.loading = null));
    return this.loading ?? Promise.resolve();
  }

  async fetchPage() {
    const wanted = this.filter;
    const query = new URLSearchParams({ ...plain(wanted), after: this.items.at(-1)?.rank ?? 0, limit: PAGE });
    const said = await get(`/api/instances?${query}`);
    if (wanted !== this.filter) return;
    if (!this.items.length) this.total = said.total;
    for (const item of said.items) {
      if (this.byIndex.has(item.index)) continue;
      this.items.push(item);
      this.byIndex.set(item.index, item);
    }
    this.ended = said.items.length < PAGE;
  }

  // What was decided, here or elsewhere; older news than what is known is passed over.
  apply(entries) {
    const changed = [];
    for (const entry of entries) {
      const item = this.byIndex.get(entry.index);
      if (!item || entry.version <= item.version) continue;
      Object.assign(item, { version: entry.version, action: entry.action, label: entry.label, who: entry.who });
      changed.push(item);
    }
    return changed;
  }

  // The place of the next instance that is undecided, loading more where needed; -1 where there is none.
  async nextUndecided(after) {
    for (let place = after; ; place++) {
      while (place >= this.items.length && !this.ended) await this.more();
      if (place >= this.items.length) break;
      if (!this.items[place].action) return place;
    }
    return this.items.findIndex((item) => !item.action);
  }
}

function plain(filter) {
  const { low, high, ...rest } = filter;
  const said = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ""));
  return { ...said, low: low / 100, high: high / 100 };
}

// The filter stands in the address, so that reloading keeps it.
function readFilter() {
  const said = new URLSearchParams(location.search);
  const filter = { ...CLEAR };
  for (const key of Object.keys(CLEAR)) {
    if (said.has(key)) filter[key] = typeof CLEAR[key] === "number" ? Number(said.get(key)) || 0 : said.get(key);
  }
  return filter;
}

function writeFilter(filter) {
  const said = new URLSearchParams();
  for (const [key, value] of Object.entries(filter)) if (String(value) !== String(CLEAR[key])) said.set(key, value);
  const query = said.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}
