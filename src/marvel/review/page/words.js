// How decisions are said.

import { name } from "./dom.js";

export function state(item, classes) {
  const label = item.label === null ? null : classes[item.label];
  if (item.action === "accept") return ["accepted ", name("suggested", label)];
  if (item.action === "keep") return ["kept ", name("given", classes[item.given])];
  if (item.action === "choose") return ["chosen ", name("chosen", label)];
  if (item.action === "aside") return ["set aside"];
  return [];
}

export const SAID = { accept: "Accepted", keep: "Kept", choose: "Chosen", aside: "Set aside" };
