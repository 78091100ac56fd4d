// The datasets of a gateway, and one of them.

import { json } from "./api.js";
import { copyable, count, el, facts, fill, size, table } from "./dom.js";
import { and, byKey, curl, datasetPath, describe, fileName, goTo, jobsThatRead, planOf } from "./plan.js";
import { visible } from "./values.js";

export async function show(place) {
  if (place.path.length === 0) return all(place);
  return one(place, place.path[0]);
}

const sources = (d) => (d.sources ?? []).map((s) => `${s.dataset} ${s.per_batch ? `${count(s.per_batch)} a batch` : `x ${s.weight}`}`).join(", ");

async function all(place) {
  const { datasets } = await json("/v1/datasets", {}, place.signal);
  place.title("Datasets");
  if (datasets.length === 0) {
    fill(place.main, el("h1", null, "Datasets"), el("p", { id: "empty" }, "This gateway serves no dataset that you may read. Another token may show more."), el("p", null, el("button", { type: "button", onclick: place.askToken }, "Give a token")));
    return;
  }
  const rows = datasets.map((d) => [
    el("span", null, el("a", { href: place.to(["data", d.name]) }, visible(d.name)), d.default && el("span", { class: "mark" }, "default")),
    d.sources ? `mixture of ${sources(d)}` : d.format, count(d.samples), d.sources ? "" : count(d.chunks), d.sources ? "" : count(d.shards), size(d.bytes),
    el("a", { href: place.to(["data", d.name, "epochs", "0", "batches", "0"]), "aria-label": `Look into batch 0 of ${visible(d.name)}` }, "Look into batch 0"),
  ]);
  const heads = ["Name", "Format", ...["Samples", "Chunks", "Shards", "Size"].map((text) => ({ text, number: true })), "Its data"];
  fill(place.main, el("h1", null, "Datasets"), el("p", null, `This gateway serves ${datasets.length === 1 ? "one dataset" : `${count(datasets.length)} datasets`}.`),
    el("div", { id: "datasets" }, table("Datasets of this gateway", heads, rows)));
}

async function one(place, name) {
  const [d, jobs] = await Promise.all([describe(name, place.signal), jobsThatRead(place, name)]);
  const shown = visible(name), plan = d.default_plan ?? {}, pin = planOf(place.query), pinned = pin.generation;
  place.title(shown);
  const link = (path, text, params = pin) => el("a", { href: place.to(path, params) }, text);
  const batch = ["data", name, "epochs", "0", "batches", "0"];
  fill(place.main, el("h1", null, shown, d.default && el("span", { class: "mark" }, "default")),
    el("p", { class: "links" }, link(batch, "Look into batch 0 of epoch 0"), link(["order", name], "Look at the order")), jobs,
    facts([
      ["Format", d.sources ? "a mixture" : d.format], ["Samples", count(d.samples)], ["Size", size(d.bytes)], ["Chunks", d.sources ? null : count(d.chunks)], ["Shards (objects)", d.sources ? null : count(d.shards)],
      ["Largest sample", size(d.max_sample)], ["Largest chunk", size(d.max_chunk)], ["Batch size by default", plan.batch_size && `${count(plan.batch_size)} samples`],
      ["Shuffle by default", plan.shuffle && `${plan.shuffle}${plan.window ? `, window ${count(plan.window)} chunks` : ""}, seed ${plan.seed}`], ["Last batch", tails[plan.tail]],
      ["Comes as", (d.forms ?? []).map((f) => f.name).join(", ")],
    ]),
    el("h2", null, "Go to a batch"), goTo(place, name),
    !d.sources && [el("h2", null, "Find a sample by its key"), byKey(place, name, pin)],
    (d.sources ?? []).length > 0 && table("Sources of the mixture", ["Dataset", { text: "Samples", number: true }, "Share"], d.sources.map((s) => [link(["data", s.dataset], visible(s.dataset), {}), count(s.samples), s.per_batch ? `${count(s.per_batch)} of each batch` : String(s.weight)])),
    labels(d), fieldsOf(d),
    table("Generations that are open", ["Generation", { text: "Samples", number: true }, "Which"], (d.generations ?? []).map((g, i) => [
      link(["data", name], g.generation.slice(0, 64), { generation: g.generation }), count(g.samples), [i === 0 && "current", g.generation === pinned && "in the address"].filter(Boolean).join(", ")])),
    d.follows && el("p", { class: "small" }, "The gateway looks for newer generations by itself. An address that names a generation stays as it is."),
    d.constants && el("details", null, el("summary", null, "Constants of the format"), el("pre", { class: "text", tabindex: 0 }, visible(JSON.stringify(d.constants, null, 2).slice(0, 1 << 16), true))),
    el("h2", null, "Fetch a batch"), copyable(curl(`${datasetPath(name)}/epochs/0/batches/0?${and(pin).slice(1)}`.replace(/\?$/, ""), `${fileName(name)}-0-0.${d.forms?.[0]?.name ?? "bin"}`)));
}

const tails = { short: "shorter than the others", drop: "left out if it is not full", pad: "filled with samples that come again" };

const mostLabels = 1000;

function labels(d) {
  const n = d.class_samples, classes = n && d.fields.find((f) => f.name === "cls").classes;
  if (!classes) return null;
  return [table(`Classes, by folder: ${count(classes.length)}`, [{ text: "Number", number: true }, "Class", { text: "Samples", number: true }, "Share"],
    classes.slice(0, mostLabels).map((c, i) => [i, visible(c), count(n[i]), `${(100 * n[i] / d.samples).toFixed(1)} %`])),
  classes.length > mostLabels && el("p", { class: "small" }, `The first ${count(mostLabels)} of ${count(classes.length)} classes.`)];
}

function fieldsOf(d) {
  if (!d.fields) return null;
  const names = (f) => (f.classes ? `${count(f.classes.length)} classes: ${f.classes.slice(0, 12).map((c) => visible(String(c))).join(", ")}${f.classes.length > 12 ? ", ..." : ""}` : "");
  return [table("Parts of a sample", ["Name", "Type", "Shape", "Stored as", "May be missing", "Classes"], d.fields.slice(0, mostLabels).map((f) => [
    visible(f.name) || "(the sample itself)", f.logical ? `${f.logical} in ${f.type}` : f.type ?? "", f.shape?.join(" x ") ?? "", f.encoding, f.nullable ? "yes" : "no", names(f)])),
  d.other_parts && el("p", { class: "small" }, "Samples have other parts too, which are called by the suffixes of their files.")];
}
