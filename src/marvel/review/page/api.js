// Asking the server. The token comes in the fragment of the address, and goes out in a header of our own.

const PLACE = "marvel-token";
const PICTURES = 300;

export class Locked extends Error {}
export class Conflict extends Error {
  constructor(said) {
    super("decided elsewhere meanwhile");
    this.now = said.now;
    this.progress = said.progress;
  }
}

function readToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    localStorage.setItem(PLACE, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given ?? localStorage.getItem(PLACE) ?? "";
}

const token = readToken();
addEventListener("hashchange", () => location.hash.includes("token=") && location.reload());

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, "x-marvel-token": token } });
  } catch {
    throw new Error("The server does not answer. Is marvel review still running?");
  }
  if (response.status === 401) throw new Locked();
  if (response.status === 409) throw new Conflict(await response.json());
  return response;
}

async function json(response) {
  const said = await response.json();
  if (!response.ok) throw new Error(said.error ?? "The server refused this.");
  return said;
}

export const get = async (path) => json(await ask(path));

export const post = async (path, body) =>
  json(await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));

// Pictures are fetched ahead and kept, the oldest given up first; what is kept is the promise of an address.
const pictures = new Map();

export function picture(index, largest) {
  const key = `${index}/${largest}`;
  let kept = pictures.get(key);
  if (kept) pictures.delete(key);
  else kept = fetchPicture(index, largest).catch(() => (pictures.delete(key), null));
  pictures.set(key, kept);
  for (const oldest of pictures.keys()) {
    if (pictures.size <= PICTURES) break;
    pictures.get(oldest).then((address) => address && URL.revokeObjectURL(address));
    pictures.delete(oldest);
  }
  return kept;
}

async function fetchPicture(index, largest) {
  const response = await ask(`/api/pictures/${index}?largest=${largest}`);
  return response.status === 200 ? URL.createObjectURL(await response.blob()) : null;
}

const details = new Map();

export function detail(index) {
  if (details.size > 500) details.clear();
  if (!details.has(index)) {
    details.set(index, get(`/api/instances/${index}`).catch((error) => (details.delete(index), Promise.reject(error))));
  }
  return details.get(index);
}

export function who() {
  let name = sessionStorage.getItem("marvel-who");
  if (!name) sessionStorage.setItem("marvel-who", (name = crypto.randomUUID()));
  return name;
}
