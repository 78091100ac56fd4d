// The view of the order: #/order/photos?epoch=3&shuffle=window&window=64. It shows which chunks the batches
// draw from, and what each shuffle costs and buys: the figures that `millrace plan` prints, from the gateway.

import { count, el, fill, share, short, size, table } from "./dom.js";
import { json } from "./api.js";
import { chart } from "./charts.js";
import { picture } from "./picture.js";

const shuffles = ["none", "window", "slot", "full"];
const usesWindow = (shuffle) => shuffle === "window" || shuffle === "slot";
const usual = [16, 64, 256]; // windows to compare
const slider = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

export async function show(place) {
  if (place.path.length === 0) return choose(place);
  const name = place.path[0];
  const dataset = await json(`v1/datasets/${encodeURIComponent(name)}`, {}, place.signal);
  const plan = planOf(place.query, dataset.default_plan);
  place.title(`Order of ${name}`);
  const known = new Map(); // what the gateway has said of plans, by their parameters
  const describe = (more) => {
    const params = parameters({ ...plan, ...more }), key = JSON.stringify(params);
    if (!known.has(key)) known.set(key, json(`${base(name)}/epochs/${plan.epoch}`, params, place.signal));
    return known.get(key);
  };
  const own = await describe({});
  fill(place.main, el("h1", null, `Order of ${name}`), form(place, name, plan),
    drawing(place, name, plan, dataset, own), buys(place, name, plan, describe, dataset), side(place, plan, describe));
}

const base = (name) => `v1/datasets/${encodeURIComponent(name)}`;

// parameters are those of a plan as the gateway takes them.
function parameters(plan) {
  return {
    shuffle: plan.shuffle, window: usesWindow(plan.shuffle) ? plan.window : "", seed: plan.seed, batch_size: plan.batch_size, subset: plan.subset,
    generation: plan.generation, split: plan.split, world_size: plan.split ? plan.world_size : "",
  };
}

// planOf reads the plan of an address; what it leaves out is the data set's own.
function planOf(query, own) {
  const value = (key) => query.get(key) || String(own[key] ?? "");
  return {
    epoch: query.get("epoch") || "0", shuffle: value("shuffle"), window: value("window") || "128", seed: value("seed"), batch_size: value("batch_size"),
    subset: query.get("subset") ?? "", generation: query.get("generation") ?? "", axis: query.get("axis") ?? "stored", world_size: query.get("world_size") ?? "8", split: "",
    rectangle: ["from", "to", "from_chunk", "to_chunk"].map((key) => query.get(key)),
  };
}

// addressOf is the query of this view.
function addressOf(plan, rectangle = {}) {
  const { epoch, shuffle, window, seed, batch_size: batchSize, subset, generation, axis, world_size: ranks } = plan;
  return { epoch, shuffle, window: usesWindow(shuffle) ? window : "", seed, batch_size: batchSize, subset, generation, axis, world_size: ranks, ...rectangle };
}

async function choose(place) {
  const { datasets } = await json("v1/datasets", {}, place.signal);
  fill(place.main, el("h1", null, "Order"), el("p", null, "Which data set?"),
    el("ul", null, datasets.map((d) => el("li", null, el("a", { href: place.to(["order", d.name]) }, d.name)))));
}

function form(place, name, plan) {
  const field = (label, key, props) => el("label", null, `${label} `, el("input", { name: key, value: plan[key], autocomplete: "off", ...props }));
  const list = (label, key, values) => el("label", null, `${label} `,
    el("select", { name: key }, values.map((v) => el("option", { value: v, selected: v === plan[key] }, v))));
  const whole = { inputmode: "numeric", pattern: "[0-9]+", size: 8 };
  const node = el("form", {
    class: "controls", onsubmit: (e) => {
      e.preventDefault();
      const given = Object.fromEntries(new FormData(node));
      if (given.shuffle === "full") given.axis = "stored"; // it has no sequence of chunks
      place.go(["order", name], addressOf({ ...plan, ...given }));
    },
  }, list("Shuffle", "shuffle", shuffles), field("Window", "window", whole), field("Seed", "seed", whole), field("Epoch", "epoch", whole),
  field("Batch size", "batch_size", whole), field("Ranks", "world_size", whole), list("Chunks", "axis", ["stored", "drawn"]), el("button", null, "Show"));
  return node;
}

function drawing(place, name, plan, dataset, own) {
  const drawn = picture({
    batches: own.batches, chunks: dataset.chunks, say: place.say,
    ask: (rectangle) => json(`${base(name)}/epochs/${plan.epoch}/draws`, { ...parameters(plan), axis: plan.axis, ...rectangle }, place.signal),
    opened: (batch) => place.go(["data", name, "epochs", plan.epoch, "batches", String(batch)], parameters(plan)),
    moved: (rectangle) => place.replace(addressOf(plan, rectangle)),
  }, place.signal);
  const [from, to, first, end] = plan.rectangle.map((text) => (text === null ? null : Number(text)));
  requestAnimationFrame(() => drawn.show({ from: from ?? 0, to: to ?? own.batches, from_chunk: first ?? 0, to_chunk: end ?? dataset.chunks }));
  return el("section", null, el("h2", null, "Which chunks batches draw from"),
    el("p", { class: "small" }, plan.axis === "drawn" ? "Chunks stand in the order in which the epoch takes them: windows are steps, and lanes are bands." : "Chunks stand in stored order."), drawn.node);
}

// side compares shuffles by the gateway's figures.
function side(place, plan, describe) {
  const rows = [["none"], ...usual.map((w) => ["window", w]), ...usual.map((w) => ["slot", w]), ["full"]];
  if (usesWindow(plan.shuffle) && !usual.includes(Number(plan.window))) rows.push([plan.shuffle, Number(plan.window)]);
  const box = el("div", null, el("p", { class: "loading" }, "Loading ..."));
  compare(place, plan, describe, rows).then((node) => fill(box, node), (e) => {
    if (!place.signal.aborted) fill(box, place.fail(e));
  });
  return el("section", null, el("h2", null, "Shuffles side by side"),
    el("p", { class: "small" }, "Variance says how much the number of a class's samples varies from batch to batch where data is stored sorted by class, next to samples drawn at random (1). ",
      `Moved is the share of samples that ${count(plan.world_size)} ranks with split=locality take from other homes.`), box);
}

async function compare(place, plan, describe, rows) {
  const number = (v) => (v === undefined ? "-" : short(v));
  const cells = await Promise.all(rows.map(async ([shuffle, window]) => {
    const [p, moved] = await Promise.all([describe({ shuffle, window }), movedOf(describe, plan, shuffle, window)]);
    const chosen = shuffle === plan.shuffle && (!window || window === Number(plan.window));
    const label = window ? `${shuffle} ${count(window)}` : shuffle;
    return [chosen ? el("strong", null, `${label} (chosen)`) : label, number(p.expected_batch_variance), number(p.expected_batch_variance_10),
      number(p.expected_batch_variance_100), size(p.window_memory), count(p.chunk_reads), count(p.first_batch_chunks), moved];
  }));
  const figure = (text) => ({ text, number: true });
  return table("Figures of each shuffle", ["Shuffle", figure("Variance by chunk"), figure("of 10 classes"), figure("of 100"), figure("Memory"), figure("Reads an epoch"), figure("First batch: chunks"), figure("Moved")], cells);
}

// movedOf asks what split=locality moves, which slot alone can have without strata.
async function movedOf(describe, plan, shuffle, window) {
  if (shuffle !== "slot" || window < Number(plan.world_size) || Number(plan.world_size) < 2) return "-";
  try {
    const p = await describe({ shuffle, window, split: "locality" });
    return p.moved === undefined ? "-" : share(p.moved);
  } catch {
    return "-"; // the data set has fewer lanes than ranks
  }
}

// buys shows what a window buys: variance and memory of some windows.
function buys(place, name, plan, describe, dataset) {
  const shuffle = usesWindow(plan.shuffle) ? plan.shuffle : "window";
  const windows = slider.filter((w, i) => i < 2 || slider[i - 1] < dataset.chunks);
  const x = { label: "Window, chunks", value: count, log: true };
  const variance = chart({ title: "Variance of 10 classes (1 is chance)", lines: [{ label: "variance", color: "--accent" }], value: short, x, points: true }, place.signal);
  const memory = chart({ title: "Memory of the window", lines: [{ label: "memory", color: "--disk" }], value: size, x, points: true }, place.signal);
  const words = el("output", null, "");
  const range = el("input", { type: "range", min: 0, max: windows.length - 1, value: nearest(windows, Number(plan.window)), oninput: tell, "aria-label": "Window" });
  const use = el("button", { type: "button", onclick: () => place.go(["order", name], addressOf({ ...plan, shuffle, window: String(windows[range.value]) })) }, "Use this window");
  let plans = null;
  function tell() {
    if (!plans) return;
    const p = plans[range.value], w = windows[range.value];
    fill(words, `A window of ${count(w)} chunks takes ${size(p.window_memory)} of memory; batches of 10 sorted classes vary ${short(p.expected_batch_variance_10 ?? 0)} times as much as by chance.`);
    variance.mark(w);
    memory.mark(w);
  }
  Promise.all(windows.map((window) => describe({ shuffle, window }))).then((all) => {
    plans = all;
    variance.draw([windows, all.map((p) => p.expected_batch_variance_10 ?? null)]);
    memory.draw([windows, all.map((p) => p.window_memory)]);
    tell();
  }).catch((e) => { if (!place.signal.aborted) fill(words, `The figures could not be had: ${e.message}`); });
  return el("section", null, el("h2", null, `What a window buys, with shuffle ${shuffle}`), el("div", { class: "controls" }, el("label", null, "Window ", range), use), el("p", null, words),
    el("div", { class: "panel" }, variance.node, memory.node));
}

const nearest = (list, x) => list.reduce((best, v, i) => (Math.abs(Math.log(v / x)) < Math.abs(Math.log(list[best] / x)) ? i : best), 0);
