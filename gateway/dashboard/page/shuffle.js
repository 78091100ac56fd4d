// The shuffle view, #/shuffle/photos?epoch=3&shuffle=window&window=64: whether the data is mixed, which chunks batches
// draw from, and the cost and benefit of each shuffle, with the figures of `millrace plan`.

import { count, el, fill, share, short, size, table } from "./dom.js";
import { bytes, json, query } from "./api.js";
import { chart } from "./charts.js";
import { samplesOf } from "./framed.js";
import { heatmap } from "./heatmap.js";
import { datasetPath, isOwn, jobsThatRead, orderNames } from "./plan.js";

const usesWindow = (shuffle) => shuffle === "window" || shuffle === "slot";
const usual = [16, 64, 256]; // windows to compare
const slider = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const fine = 1.25, enough = 2; // thresholds of the variance; see docs/page.md
const fewest = 100; // minimum of batches x classes for a measured variance that is accurate to a seventh

export async function show(place) {
  if (place.path.length === 0) return choose(place, "Shuffle", (await json("v1/datasets", {}, place.signal)).datasets.map((d) => d.name));
  const name = place.path[0];
  const dataset = await json(datasetPath(name), {}, place.signal);
  if (dataset.sources) return choose(place, `Shuffle of ${name}, a mixture`, dataset.sources.map((s) => s.dataset));
  const plan = planOf(place.query, dataset.default_plan);
  place.title(`Shuffle of ${name}`);
  const known = new Map(); // responses by request
  let drawn;
  const first = new Promise((resolve) => { drawn = resolve; }); // the heatmap is requested before the figures of other plans
  const ask = (what, more, extra) => {
    const chosen = !more.shuffle || (more.shuffle === plan.shuffle && (!more.window || more.window === Number(plan.window))); // strata may not fit other plans
    const params = { ...parameters({ ...plan, strata: chosen ? plan.strata : "", ...more }), ...extra }, key = what + JSON.stringify(params);
    if (!known.has(key)) known.set(key, (more.shuffle ? first : Promise.resolve()).then(() => json(`${datasetPath(name)}/epochs/${plan.epoch}${what}`, params, place.signal)));
    return known.get(key);
  };
  const describe = (more) => ask("", more);
  const measure = (more) => ask("/draws", more, { columns: 1, rows: 1, to_chunk: 1 }).then((p) => p.mixing ?? {}, () => ({}));
  const stats = place.root.links?.statistics ? json("v1/stats", {}, place.signal).catch(() => null) : null; // the token may lack the right
  const jobs = isOwn(place.query) && jobsThatRead(place, name); // jobs may not use the default plan
  const [own, mixing, gateway, read] = await Promise.all([describe({}), measure({}), stats, jobs]);
  const memory = gateway?.counters.millrace_budget_bytes;
  const at = { place, name, dataset, plan, own, mixing, describe, measure, first: drawn };
  const better = el("span");
  if (judged(at) > enough) cure(at, memory).then((text) => fill(better, text), () => {}); // the table shows the failure
  fill(place.main, el("h1", null, `Shuffle of ${name}`), read, el("section", null, el("h2", null, "Is the data mixed?"), el("p", { id: "mixed" }, mixed(at), better), "expected_batch_variance" in own && !("class_variance" in mixing) && byLabel(at),
      el("h2", null, "Is the cache large enough?"), el("p", { id: "fits" }, fits(own, memory))),
    form(place, name, plan), drawing(at), buys(at), side(at));
}

// parameters returns the query parameters of a plan.
function parameters(plan) {
  const params = Object.fromEntries(orderNames.map((n) => [n, plan[n]]));
  if (!usesWindow(plan.shuffle)) params.window = "";
  return plan.share ? { ...params, share: plan.share, world_size: plan.world_size } : params;
}

// planOf returns the plan of an address, with the dataset's defaults.
const planOf = (query, own) => ({
  epoch: "0", window: "128", axis: "stored", world_size: "8", ...Object.fromEntries([...Object.entries(own ?? {}), ...query].filter(([, v]) => v !== "").map(([n, v]) => [n, String(v)])), share: "",
});

// addressOf returns the query of this view for a plan.
const addressOf = ({ share, from, to, from_chunk: first, to_chunk: end, ...plan }, more) => ({ ...plan, window: usesWindow(plan.shuffle) ? plan.window : "", ...more });

function choose(place, title, names) {
  if (names.length === 1) return location.replace(place.to(["shuffle", names[0]]));
  fill(place.main, el("h1", null, title), el("p", null, "Choose a dataset:"), el("ul", null, names.map((n) => el("li", null, el("a", { href: place.to(["shuffle", n]) }, n)))));
}

function form(place, name, plan) {
  const field = (label, key, props) => el("label", null, `${label} `, el("input", { name: key, value: plan[key], autocomplete: "off", ...props }));
  const list = (label, key, values) => el("label", null, `${label} `,
    el("select", { name: key }, values.map((v) => el("option", { value: v, selected: v === plan[key] }, v))));
  const whole = { inputmode: "numeric", pattern: "[0-9]+", size: 8 };
  return el("form", {
    class: "controls", onsubmit: (e) => {
      e.preventDefault();
      const given = Object.fromEntries(new FormData(e.target));
      if (given.shuffle === "full") given.axis = "stored"; // a full shuffle has no sequence of chunks
      place.go(["shuffle", name], addressOf({ ...plan, ...given }));
    },
  }, list("Shuffle", "shuffle", ["none", "window", "slot", "full"]), field("Window", "window", whole), field("Seed", "seed", whole), field("Epoch", "epoch", whole),
  field("Batch size", "batch_size", whole), field("Ranks", "world_size", whole), list("Chunk order", "axis", ["stored", "drawn"]), el("button", null, "Show"));
}

// worst returns the largest variance that the gateway expects of a plan for any classes.
const worst = (p) => Math.max(p.expected_batch_variance, p.expected_batch_variance_10, p.expected_batch_variance_100);

// judged returns the variance for the verdict: the measured one if it is accurate, otherwise the worst.
const sure = ({ dataset, mixing: m }) => "class_variance" in m && m.batches * (dataset.class_samples?.length - 1) >= fewest;
const judged = (at) => (sure(at) ? at.mixing.class_variance : worst(at.own));
const verdict = (v) => (v <= fine ? "Yes" : v <= enough ? "Nearly" : "No");
const asMuch = (v) => `${short(v)} times as much as in random batches`;

function mixed(at) {
  const { dataset, plan, mixing } = at, v = judged(at);
  if (Number.isNaN(v)) return "No batch has two samples.";
  return `${verdict(v)}${sure(at) ? "" : `, ${v > enough ? "" : "even "}if the data is stored sorted by class`}: ${mixing.chunks ? `a batch of ${count(plan.batch_size)} draws from ${short(mixing.chunks)} of ${count(dataset.chunks)} chunks, and ` : ""}`
    + `classes vary ${asMuch(v)}${sure(at) ? `, measured in ${count(mixing.batches)} batches` : ""}${v <= fine ? ": as well as a full shuffle" : ""}. `;
}

// need returns the --cache-size that a plan requires: seven tenths of it hold chunks.
const need = (p) => p.window_memory / 0.7;

// cure returns the well-mixed shuffle with the least memory. has is the gateway's cache size.
async function cure({ describe, plan }, has) {
  const all = await Promise.all([...rowsOf(plan), ...slider.map((w) => ["slot", w])].map(async ([shuffle, window]) => [await describe({ shuffle, window }), nameOf(shuffle, window)]));
  const [p, order] = all.filter(([p]) => worst(p) <= enough).sort(([a], [b]) => a.window_memory - b.window_memory)[0] ?? [];
  return p && `Shuffle ${order} reduces that to ${short(worst(p))}. It requires --cache-size ${size(need(p))}${has < need(p) ? `; this gateway has ${size(has)}` : ""}.`;
}

function fits(own, has) {
  const want = need(own);
  const keeps = `The plan keeps ${size(own.window_memory)} of chunks in memory, which requires --cache-size ${size(want)}: seven tenths of it hold chunks.`;
  if (has === undefined) return `${keeps} Performance shows the size of this gateway.`;
  return has >= want ? `Yes: this gateway has ${size(has)}. ${keeps}`
    : `No: this gateway has ${size(has)}. ${keeps} With less, the gateway reads chunks more than once per epoch. Use a smaller window, or a cluster of ${count(Math.ceil(want / has))} such gateways.`;
}

// byLabel returns a form that measures the mixing of labels in the data, which it reads from some batches.
function byLabel({ place, name, dataset, plan, own }) {
  const said = el("output");
  const guess = dataset.fields?.find((f) => f.classes || /^(labels?|class)$/.test(f.name))?.name ?? "cls";
  const n = Math.min(own.batches, Math.max(2, Math.min(16, Math.floor(16384 / plan.batch_size))));
  async function measure(label) {
    const all = new Map();
    const batches = await Promise.all([...Array(n).keys()].map(async (i) => {
      const path = `${datasetPath(name)}/epochs/${plan.epoch}/batches/${Math.floor(i * own.batches / n)}`, counts = new Map();
      for (const { parts } of samplesOf(await bytes(path + query({ ...parameters(plan), format: "framed", table: "keys,parts", fields: label }), { signal: place.signal }))) {
        const c = String(parts[0]?.bytes);
        for (const map of [counts, all]) map.set(c, (map.get(c) ?? 0) + 1);
      }
      return counts;
    }));
    const sum = (list, f) => list.reduce((total, x) => total + f(x), 0), size = (map) => sum([...map.values()], Number);
    const total = size(all), shares = [...all].map(([c, k]) => [c, k / total]);
    if (n < 2 || all.size < 2 || all.size > total / 2) return `${label} has ${count(all.size)} values in ${count(total)} samples: it is not a class label.`;
    const v = sum(batches, (counts) => sum(shares, ([c, p]) => ((counts.get(c) ?? 0) - size(counts) * p) ** 2) / size(counts)) / (1 - sum(shares, ([, p]) => p * p)) / (n - 1);
    return `${n * (all.size - 1) < fewest ? "Roughly: " : ""}${verdict(v)}: the ${count(all.size)} classes of ${label} vary ${asMuch(v)}, measured in ${n} batches.`;
  }
  return el("form", {
    id: "by-label", class: "controls", onsubmit: (e) => {
      e.preventDefault();
      fill(said, "Reading ...");
      measure(e.target.elements.label.value).catch((x) => x.message).then((text) => fill(said, text));
    },
  }, el("label", null, "Measure mixing by the label ", el("input", { name: "label", value: guess, required: true, size: 10 })), el("button", null, `Read ${n} batches`), said);
}

function drawing({ place, name, plan, dataset, own, first }) {
  const drawn = heatmap({
    batches: own.batches, chunks: dataset.chunks, say: place.say,
    ask: (rectangle) => json(`${datasetPath(name)}/epochs/${plan.epoch}/draws`, { ...parameters(plan), axis: plan.axis, ...rectangle }, place.signal),
    opened: (batch) => place.go(["data", name, "epochs", plan.epoch, "batches", String(batch)], parameters(plan)),
    moved: (rectangle) => place.replace(addressOf(plan, rectangle)),
  }, place.signal);
  const at = (key, other) => Number(plan[key] ?? other);
  requestAnimationFrame(() => drawn.show({ from: at("from", 0), to: at("to", own.batches), from_chunk: at("from_chunk", 0), to_chunk: at("to_chunk", dataset.chunks) }).then(first));
  return el("section", null, el("h2", null, "Which chunks batches draw from"),
    el("p", { class: "small" }, plan.axis === "drawn" ? "Chunks in the order of the epoch: windows are steps, lanes are bands." : "Chunks in stored order."), drawn.node);
}

const figure = (text) => ({ text, number: true });
const nameOf = (shuffle, window) => (window ? `${shuffle} ${count(window)}` : shuffle);
const number = (v) => (v === undefined ? "-" : short(v));

// rowsOf returns the shuffles to compare.
function rowsOf(plan) {
  const rows = [["none"], ...usual.map((w) => ["window", w]), ...usual.map((w) => ["slot", w]), ["full"]];
  if (usesWindow(plan.shuffle) && !usual.includes(Number(plan.window))) rows.push([plan.shuffle, Number(plan.window)]);
  return rows;
}

// side returns the section that compares shuffles.
function side(at) {
  const { place, plan, mixing } = at;
  const box = el("div", { id: "side" }, el("p", { class: "loading" }, "Loading ..."));
  compare(at).then((node) => fill(box, node), (e) => fill(box, place.fail(e)));
  return el("section", null, el("h2", null, "Shuffles compared"),
    el("p", { class: "small" }, `Variance: variation of a class's count from batch to batch, relative to random batches, for data stored sorted by class.${"class_variance" in mixing ? " Measured: the same for the real classes." : ""} Moved: share of samples that ${count(plan.world_size)} ranks with share=locality read from other gateways.`), box);
}

async function compare(at) {
  const { plan, describe, measure, mixing } = at, measured = "class_variance" in mixing;
  const cells = await Promise.all(rowsOf(plan).map(async ([shuffle, window]) => {
    const [p, m, moved] = await Promise.all([describe({ shuffle, window }), measure({ shuffle, window }), movedOf(describe, plan, shuffle, window)]);
    const chosen = shuffle === plan.shuffle && (!window || window === Number(plan.window));
    return [el(chosen ? "strong" : "span", null, nameOf(shuffle, window), chosen && " (chosen)"), number(p.expected_batch_variance), number(p.expected_batch_variance_10),
      number(p.expected_batch_variance_100), ...(measured ? [number(m.class_variance)] : []), number(m.chunks), size(p.window_memory), count(p.chunk_reads), moved];
  }));
  return table("Figures of each shuffle", ["Shuffle", ...["Variance by chunk", "10 classes", "100 classes", ...(measured ? ["Measured"] : []), "Chunks per batch", "Memory", "Chunk reads", "Moved"].map(figure)], cells);
}

// movedOf requests the share of samples that share=locality moves. Only slot without strata supports it.
async function movedOf(describe, plan, shuffle, window) {
  if (shuffle !== "slot" || window < Number(plan.world_size) || Number(plan.world_size) < 2) return "-";
  try {
    const p = await describe({ shuffle, window, share: "locality" });
    return p.moved === undefined ? "-" : share(p.moved);
  } catch {
    return "-"; // the dataset has fewer lanes than ranks
  }
}

// buys compares a selected window with the plan of the address.
function buys({ place, name, plan, describe, measure, dataset, own, mixing }) {
  const shuffle = usesWindow(plan.shuffle) ? plan.shuffle : "window";
  const windows = slider.filter((w, i) => i < 2 || slider[i - 1] < dataset.chunks);
  const draw = (title, label, color, value) => chart({ title, lines: [{ label, color }], value, x: { label: "Window, chunks", value: count, log: true }, range: () => [1, windows.at(-1)], points: true }, place.signal);
  const variance = draw("Variance of 10 classes (1: random)", "variance", "--accent", short), memory = draw("Memory of the window", "memory", "--disk", size);
  const figures = el("div", { id: "bought" });
  const range = el("input", { type: "range", min: 0, max: windows.length - 1, value: windows.findLastIndex((w) => w <= plan.window), oninput: tell });
  const use = el("button", { onclick: () => place.go(["shuffle", name], addressOf({ ...plan, shuffle, window: String(windows[range.value]) })) }, "Use this window");
  let plans = null;
  async function tell() {
    const w = windows[range.value], p = plans?.[range.value];
    const row = (title, write) => [title, write(own, mixing), p ? write(p, m) : "-"];
    let m = {};
    const show = () => fill(figures, table("This plan and another window", ["Figure", figure("This plan"), figure(`${shuffle} ${count(w)}`)], [
      row("Memory", (d) => size(d.window_memory)), row("Chunk reads", (d) => count(d.chunk_reads)), row("Variance of 10 classes", (d) => number(d.expected_batch_variance_10)),
      "class_variance" in mixing && row("Variance, measured", (_, x) => number(x.class_variance)), row("Chunks per batch", (_, x) => number(x.chunks)),
    ].filter(Boolean)));
    show();
    if (!p) return;
    range.setAttribute("aria-valuetext", `${count(w)} chunks: ${size(p.window_memory)} of memory, variance ${number(p.expected_batch_variance_10)}`);
    variance.mark(w);
    memory.mark(w);
    m = await measure({ shuffle, window: w });
    if (windows[range.value] === w) show();
  }
  tell();
  Promise.all(windows.map((window) => describe({ shuffle, window }))).then((all) => {
    plans = all;
    variance.draw([windows, all.map((p) => p.expected_batch_variance_10 ?? null)]);
    memory.draw([windows, all.map((p) => p.window_memory)]);
    return tell();
  }).catch((e) => fill(figures, place.fail(e)));
  return el("section", null, el("h2", null, `Effect of the window, with shuffle ${shuffle}`), el("div", { class: "controls" }, el("label", null, "Window ", range), use), figures,
    el("div", { class: "panel charts" }, variance.node, memory.node));
}
