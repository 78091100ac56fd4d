// The sample view: contents, location, occurrences in other epochs, and how to exclude a sample.

import { bytes, json, request } from "./api.js";
import { copyable, count, el, facts, fill, size, table } from "./dom.js";
import { samplesOf } from "./framed.js";
import { about, and, byKey, curl, datasetPath, describe, fileName, goTo, keyQuery, orderOf, planOf, quarantine, soughtOf } from "./plan.js";
import { Blobs, whole } from "./show.js";
import { look, visible } from "./values.js";
import { readTokenizer, tokenizerName } from "./tokens.js";

export const mostLoaded = 8 << 20; // largest sample that is loaded whole, in bytes
const beginning = 1 << 16; // bytes that are loaded of a larger sample
const mostSaved = 256 << 20; // largest download, in bytes: browsers hold it in memory

// load fetches the parts of a sample, or the beginning of a large one.
export async function load(path, length, signal) {
  const range = length > mostLoaded ? [0, beginning - 1] : undefined;
  const found = samplesOf(await bytes(`${path}&format=framed&table=keys,parts`, { signal, range }));
  if (!found?.[0]) throw new Error("the sample has more part names than the page reads");
  return found[0];
}

// details returns the content of a sample's panel and of its view. s is the manifest entry of the sample, with `dataset`:
// the sample's dataset, or the source of a mixture. at is the address of its bytes.
export function details(place, description, s, { at, epoch, batch }) {
  const signal = place.signal, blobs = new Blobs(signal), own = `${datasetPath(s.dataset)}/sample${keyQuery(s)}`;
  const generation = s.dataset === description.name ? place.query.get("generation") : "";
  const file = fileName(s.key), stored = `${own}${generation ? `&generation=${generation}` : ""}`;
  const parts = el("div", { class: "parts" }, el("p", { class: "loading" }, "Loading the sample ..."));
  const node = el("div", { class: "sample" },
    facts([["Key", el("span", { class: "key", tabindex: s.key.length > 200 ? 0 : null }, visible(s.key))], ["Source", s.source && visible(s.source)], ["Shard", visible(s.shard)], ["Position in epoch", epoch === undefined ? null : `${count(s.position)} of epoch ${epoch}`],
      ["Batch", batch === undefined ? null : count(batch)], ["Size", `${size(s.length)}${s.length < 1024 ? "" : ` (${count(s.length)} bytes)`}`], ["Offset in the shard", `byte ${count(s.offset)}`], ["CRC-32C", s.crc32c]]),
    el("h2", null, "Contents"), parts,
    el("p", { class: "buttons" }, s.length <= mostSaved && el("button", { type: "button", class: "save", onclick: (e) => save(e.target, stored, `${file}.${(description.described.get(s.source) ?? description).forms?.[0]?.name ?? "bin"}`, signal) }, `Download sample, ${size(s.length)}`)),
    s.length > mostSaved && el("p", null, "The sample is too large for this tab to save: fetch it with curl."),
    copyable(curl(stored, file)),
    elsewhere(place, description, s), takeOut(place, description, s));
  const fetchAgain = () => load(at, s.length, signal).then((sample) => {
    blobs.clear();
    fill(parts, s.length > mostLoaded && el("p", { class: "note" }, `The sample has ${size(s.length)}: the page shows its beginning.`), sample.parts.slice(0, 256).map((p) => part(p, description, s, blobs, file)),
      sample.parts.length > 256 && el("p", { class: "small" }, `The first 256 of ${count(sample.parts.length)} parts.`));
  }).catch((e) => fill(parts, place.fail(e, fetchAgain)));
  fetchAgain();
  return { node, clear: () => blobs.clear() };
}

function part(p, description, s, blobs, file) {
  const found = look(p.bytes, about(description, s.source, p));
  const content = el("div", null, whole(found, p.bytes, blobs, `${visible(p.name.slice(0, 100))} of ${visible(s.key.slice(0, 100))}`));
  const again = () => fill(content, whole(found, p.bytes, blobs, p.name));
  return el("section", { class: "part" }, el("h3", null, visible(p.name) || "(the sample itself)", " ", el("span", { class: "small" }, size(p.length))), content,
    found.kind === "tokens" && tokenizer(again),
    p.bytes.length === p.length && p.length > 0 && found.kind !== "value" && el("button", { type: "button", onclick: () => offer(new Blob([p.bytes], { type: "application/octet-stream" }), fileName(`${file}.${p.name}`)) }, "Download part"));
}

function tokenizer(again) {
  const said = el("span", { role: "status" }, tokenizerName() && `Decoded with ${tokenizerName()}.`);
  const read = async (e) => {
    try {
      said.textContent = `${count(await readTokenizer(e.target.files[0]))} tokens loaded.`;
      again();
    } catch (error) { said.textContent = `Not loaded: ${error.message}.`; }
  };
  return el("p", null, el("label", null, "Show as text with a tokenizer.json (read in this tab only) ", el("input", { type: "file", accept: ".json", onchange: read })), " ", said);
}

function offer(blob, name) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function save(button, path, name, signal) {
  const text = button.textContent;
  button.disabled = true;
  button.textContent = "Downloading ...";
  try {
    const answer = await request(path, { signal });
    offer(new Blob([await answer.arrayBuffer()], { type: "application/octet-stream" }), name);
    button.textContent = text;
  } catch (e) { button.textContent = `Not downloaded: ${e.message}`; }
  button.disabled = false;
}

// elsewhere lists the batches of other epochs that contain the sample.
function elsewhere(place, description, s) {
  const box = el("div", { class: "occurrences" });
  if (s.dataset !== description.name) {
    return [el("h2", null, "Occurrences"), el("p", null, "Mixtures have no list of occurrences. See the source: ", el("a", { href: place.to(["data", s.dataset, "sample"], { key: s.key, shard: s.shard }) }, `the sample in ${visible(s.dataset)}`), ".")];
  }
  const plan = planOf(place.query), current = Number(place.path[2]) || 0;
  const ask = async (epochs) => {
    fill(box, el("p", { class: "loading" }, "Loading ..."));
    try {
      const { occurrences } = await json(`${datasetPath(s.dataset)}/occurrences${keyQuery(s)}&epochs=${encodeURIComponent(epochs)}${and(soughtOf(place.query))}`, {}, place.signal);
      const ranked = occurrences[0]?.rank !== undefined;
      fill(box, occurrences.length === 0 ? el("p", null, "It occurs in none of these epochs.") : table(`Epochs ${epochs}, seed ${plan.seed ?? description.default_plan?.seed ?? 0}: ${occurrences.length === 1 ? "one occurrence" : `${count(occurrences.length)} occurrences`}`, [{ text: "Epoch", number: true }, "Batch", ...(ranked ? [{ text: "Rank", number: true }] : []), { text: "Position", number: true }],
        occurrences.slice(0, 1000).map((o) => [o.epoch, o.batch === undefined ? "in none" : el("a", { href: place.to(["data", s.dataset, "epochs", String(o.epoch), "batches", String(o.batch)], { ...plan, ...(ranked ? { rank: o.rank } : { rank: undefined }), sample: o.position }) }, `batch ${count(o.batch)}`), ...(ranked ? [o.rank] : []), count(o.position)])));
    } catch (e) { fill(box, place.fail(e, () => ask(epochs))); }
  };
  const from = Math.max(0, current - 2), first = `${from}-${from + 9}`;
  const input = el("input", { name: "epochs", value: first, pattern: "\\d+(-\\d+)?", required: true, autocomplete: "off" });
  ask(first);
  return [el("h2", null, "Occurrences"), el("form", { class: "controls epochs", onsubmit: (e) => { e.preventDefault(); ask(input.value); } }, el("label", null, "Epochs, such as 3 or 0-99", el("br"), input), el("button", { type: "submit" }, "Show")), box];
}

function takeOut(place, description, s) {
  const line = quarantine(s), box = el("div");
  if (!description.sources) {
    json(`${datasetPath(s.dataset)}/occurrences${keyQuery(s)}&epochs=0&shuffle=none${place.query.get("generation") ? and({ generation: place.query.get("generation") }) : ""}`, {}, place.signal).then(({ occurrences }) => {
      if (!occurrences[0] || place.query.get("quarantine")) return;
      const text = `samples:${occurrences[0].position}`;
      fill(box, el("p", null, "Or without a stored list: add ", el("code", null, `quarantine=${text}`), " to the URLs of the job. ",
        place.path[1] === "epochs" && el("a", { class: "without", href: place.to(["data", ...place.path], { ...planOf(place.query), quarantine: text }) }, "This batch without the sample")));
    }).catch(() => { /* the command above is enough */ });
  }
  return [el("h2", null, "Exclude this sample"), el("p", null, "The command stores a list of bad samples next to the index and prints the list's name. Batches keep their places: another sample of the same chunk replaces a bad one. ADDRESS is the dataset's, such as s3://bucket/photos."),
    line ? el("div", { class: "take-out" }, copyable(line)) : el("p", null, "No command line can hold this key: use the list below."), el("p", null, "Then add ", el("code", null, "quarantine=NAME"), " to the URLs of the job, or ", el("code", null, "client.quarantine(\"NAME\")"), " in Python."), box];
}

// show shows the view of a sample by its key.
export async function show(place) {
  const name = place.path[0], q = place.query, wanted = { key: q.get("key") ?? "", shard: q.get("shard") ?? "", key_base64: q.get("key64") ?? undefined };
  const pin = q.get("generation") ? { generation: q.get("generation") } : {}, plan = planOf(q), path = datasetPath(name);
  const title = el("h1", null, "Sample of ", el("a", { href: place.to(["data", name], plan) }, visible(name)));
  place.title(`Sample of ${visible(name)}`);
  const description = await describe(name, place.signal);
  let found;
  try {
    found = (await json(`${path}/occurrences${keyQuery(wanted)}&epochs=0&shuffle=none${and(pin)}`, {}, place.signal)).occurrences[0];
  } catch (e) {
    if (e.code !== "ambiguous_key") {
      fill(place.main, title, place.fail(e, () => show(place)), el("h2", null, "Find another sample"), byKey(place, name, plan));
      return;
    }
    fill(place.main, title, el("p", null, `${count(e.shards.length)} shards have a sample with the key `, el("strong", null, visible(wanted.key)), ". Choose one:"),
      el("ul", { id: "shards" }, e.shards.map((shard) => el("li", null, el("a", { href: place.to(["data", name, "sample"], { key: wanted.key, key64: wanted.key_base64, shard, ...plan }) }, visible(shard))))));
    return;
  }
  const at = "/epochs/0/samples", plain = `?at=${found.position}&shuffle=none${and(orderOf(new URLSearchParams(pin)))}`;
  const manifest = await json(`${path}${at}/manifest${plain}`, {}, place.signal);
  const s = { ...manifest.samples[0], dataset: name };
  fill(place.main, title, el("p", { class: "small" }, `Number ${count(found.position)} in stored order.`), details(place, description, s, { at: `${path}${at}${plain}` }).node, el("h2", null, "Find another sample"), byKey(place, name, plan), el("h2", null, "Go to a batch"), goTo(place, name));
}
