// The list of datasets, and the view of one dataset.

import { json } from "./api.js";
import { copyable, count, digest, el, facts, fill, size, table } from "./dom.js";
import { and, byKey, curl, datasetPath, describe, fileName, goTo, jobsThatRead, planOf } from "./plan.js";
import { visible } from "./values.js";

export async function show(place) {
  if (place.path.length === 0) return all(place);
  return one(place, place.path[0]);
}

const sources = (d) => (d.sources ?? []).map((s) => `${s.dataset} ${s.per_batch ? `${count(s.per_batch)} per batch` : `x ${s.weight}`}`).join(", ");

async function all(place) {
  const { datasets } = await json("/v1/datasets", {}, place.signal);
  place.title("Datasets");
  fill(place.main, el("h1", null, "Datasets"), datasets.length > 0 && el("p", null, `This gateway serves ${datasets.length === 1 ? "one dataset" : `${count(datasets.length)} datasets`}.`),
    datasetsTable(place, datasets));
}

// datasetsTable lists datasets with links to their views and first batches.
export function datasetsTable(place, datasets) {
  if (datasets.length === 0) {
    return [el("p", { id: "empty" }, "This gateway serves no dataset that you may read. Another token may have more rights."), el("p", null, el("button", { type: "button", onclick: place.askToken }, "Enter a token"))];
  }
  const rows = datasets.map((d) => [
    [el("a", { href: place.to(["data", d.name]) }, visible(d.name)), d.default && el("span", { class: "mark" }, "default"),
      el("div", { class: "small" }, el("a", { href: place.to(["data", d.name, "epochs", "0", "batches", "0"]), "aria-label": `Batch 0 of ${visible(d.name)}` }, "Batch 0"))],
    d.sources ? `mixture of ${sources(d)}` : d.format, count(d.samples), size(d.bytes), d.sources ? "" : count(d.shards), d.sources ? "" : count(d.chunks),
  ]);
  const number = (text, minor) => ({ text, number: true, minor });
  return el("div", { id: "datasets" }, table("Datasets of this gateway", ["Name", "Format", number("Samples"), number("Size"), number("Shards", true), number("Chunks", true)], rows));
}

async function one(place, name) {
  const [d, jobs] = await Promise.all([describe(name, place.signal), jobsThatRead(place, name)]);
  const shown = visible(name), plan = d.default_plan ?? {}, pin = planOf(place.query), pinned = pin.generation;
  place.title(shown);
  const link = (path, text, params = pin) => el("a", { href: place.to(path, params) }, text);
  const batch = ["data", name, "epochs", "0", "batches", "0"];
  fill(place.main, el("h1", null, shown, d.default && el("span", { class: "mark" }, "default")),
    el("p", { class: "links" }, link(batch, "Batch 0 of epoch 0"), link(["shuffle", name], "Shuffle")), jobs,
    facts([
      ["Format", d.sources ? "a mixture" : d.format], ["Samples", count(d.samples)], ["Size", size(d.bytes)], ["Chunks", d.sources ? null : count(d.chunks)], ["Shards (objects)", d.sources ? null : count(d.shards)],
      ["Largest sample", size(d.max_sample)], ["Largest chunk", size(d.max_chunk)], ["Default batch size", plan.batch_size && `${count(plan.batch_size)} samples`],
      ["Default shuffle", plan.shuffle && `${plan.shuffle}${plan.window ? `, window ${count(plan.window)} chunks` : ""}, seed ${plan.seed}`], ["Last batch", tails[plan.tail]],
      ["Served as", (d.forms ?? []).map((f) => f.name).join(", ")],
    ]),
    el("h2", null, "Go to a batch"), goTo(place, name),
    !d.sources && [el("h2", null, "Find a sample by its key"), byKey(place, name, pin)],
    (d.sources ?? []).length > 0 && table("Sources of the mixture", ["Dataset", { text: "Samples", number: true }, "Share"], d.sources.map((s) => [link(["data", s.dataset], visible(s.dataset), {}), count(s.samples), s.per_batch ? `${count(s.per_batch)} per batch` : String(s.weight)])),
    labels(d), fieldsOf(d),
    table("Open generations", ["Generation", { text: "Samples", number: true }, "State"], (d.generations ?? []).map((g, i) => [
      link(["data", name], digest(g.generation), { generation: g.generation }), count(g.samples), [i === 0 && "current", g.generation === pinned && "in this address"].filter(Boolean).join(", ")])),
    d.follows && el("p", { class: "small" }, "The gateway loads newer generations by itself. An address that names a generation keeps it."),
    d.constants && el("details", null, el("summary", null, "Constants of the format"), el("pre", { class: "text", tabindex: 0 }, visible(JSON.stringify(d.constants, null, 2).slice(0, 1 << 16), true))),
    el("h2", null, "Fetch a batch"), copyable(curl(`${datasetPath(name)}/epochs/0/batches/0?${and(pin).slice(1)}`.replace(/\?$/, ""), `${fileName(name)}-0-0.${d.forms?.[0]?.name ?? "bin"}`)));
}

const tails = { short: "may be shorter", drop: "dropped if it is not full", pad: "padded with repeated samples" };

const mostLabels = 1000;

function labels(d) {
  const n = d.class_samples, classes = n && d.fields.find((f) => f.name === "cls").classes;
  if (!classes) return null;
  return [table(`Classes, by folder: ${count(classes.length)}`, ["Class", ...["Samples", "Share", "Number"].map((text) => ({ text, number: true }))],
    classes.slice(0, mostLabels).map((c, i) => [visible(c), count(n[i]), `${(100 * n[i] / d.samples).toFixed(1)} %`, i])),
  classes.length > mostLabels && el("p", { class: "small" }, `The first ${count(mostLabels)} of ${count(classes.length)} classes.`)];
}

function fieldsOf(d) {
  if (!d.fields) return null;
  const names = (f) => (f.classes ? `${count(f.classes.length)} classes: ${f.classes.slice(0, 12).map((c) => visible(String(c))).join(", ")}${f.classes.length > 12 ? ", ..." : ""}` : "");
  return [table("Parts of a sample", ["Name", "Type", { text: "Shape", minor: true }, { text: "Stored as", minor: true }, { text: "Optional", minor: true }, "Classes"], d.fields.slice(0, mostLabels).map((f) => [
    visible(f.name) || "(the sample itself)", f.logical ? `${f.logical} in ${f.type}` : f.type ?? "", f.shape?.join(" x ") ?? "", f.encoding, f.nullable ? "yes" : "no", names(f)])),
  d.other_parts && el("p", { class: "small" }, "Samples have other parts too, named by their file suffixes.")];
}
