// The margins of one instance by epoch: below the line the network believed in another class.

import { draw } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 132;
const LEFT = 30;
const RIGHT = 6;
const TOP = 8;
const BOTTOM = 20;

export function margins(values, item, warmup) {
  const marked = [["removed", item.removed_at], ["returned", item.returned_at]].filter(([, epoch]) => epoch);
  const known = values.filter((value) => value !== null);
  const low = Math.min(-1, ...known);
  const high = Math.max(1, ...known);
  const last = Math.max(2, values.length);
  const x = (epoch) => LEFT + ((epoch - 1) / (last - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);

  const told = known.length
    ? `Margins by epoch: first ${known[0].toFixed(1)}, last ${known.at(-1).toFixed(1)}` +
      marked.map(([kind, epoch]) => `, ${kind} in epoch ${epoch}`).join("")
    : "No margins were recorded";
  const chart = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": told });
  if (warmup > 1) {
    chart.append(draw("rect", { x: LEFT, y: TOP, width: x(warmup) - LEFT, height: HEIGHT - TOP - BOTTOM, class: "warmup" }));
  }
  for (const run of runs(values)) {
    const points = run.map(([epoch, value]) => `${x(epoch).toFixed(1)} ${y(value).toFixed(1)}`);
    const [first, end] = [x(run[0][0]).toFixed(1), x(run.at(-1)[0]).toFixed(1)];
    chart.append(draw("path", { d: `M${first} ${y(0)}L${points.join("L")}L${end} ${y(0)}Z`, class: "fill" }));
    chart.append(draw("path", { d: `M${points.join("L")}`, class: "line" }));
  }
  chart.append(draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0), class: "zero" }));
  const said = (text, at) => draw("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, text);
  chart.append(said("0", y(0)));
  if (high > 2) chart.append(said(high.toFixed(0), y(high)));
  if (low < -2) chart.append(said(low.toFixed(0).replace("-", "−"), y(low)));
  chart.append(draw("text", { x: LEFT, y: HEIGHT - 4 }, "epoch 1"));
  chart.append(draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, String(values.length)));
  for (const [kind, epoch] of marked) {
    const value = values[epoch - 1];
    if (value === null || value === undefined) continue;
    chart.append(draw("circle", { cx: x(epoch), cy: y(value), r: 4, class: kind }));
  }
  return chart;
}

function runs(values) {
  const found = [[]];
  values.forEach((value, k) => {
    if (value !== null) found.at(-1).push([k + 1, value]);
    else if (found.at(-1).length) found.push([]);
  });
  return found.filter((run) => run.length);
}
