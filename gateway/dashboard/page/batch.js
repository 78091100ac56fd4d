// The batch view: a tile for each sample of the manifest. It loads the samples on the screen in groups, with a few
// requests in parallel, and cancels the rest when the user leaves the view.

import { bytes, json, read, request, sleep } from "./api.js";
import { count, el, fill, size } from "./dom.js";
import { samplesOf } from "./framed.js";
import { about, and, datasetPath, describe, goTo, isOwn, jobsThatRead, orderOf, planOf, wholeOf } from "./plan.js";
import { details, load, mostLoaded, show as sampleView } from "./sample.js";
import { Blobs, isSeen, line, whole } from "./show.js";
import { look, visible } from "./values.js";

const perPage = 64;
const mostClasses = 20; // classes in the summary of a batch
const groupBytes = 4 << 20, groupSamples = 16, groupsAtOnce = 3;
let focused = ""; // id of the link that the user followed: it gets the focus again

export function show(place) {
  if (place.path[1] === "sample") return sampleView(place);
  const batch = new Batch(place);
  return batch.show().catch((e) => batch.failed(e));
}

class Batch {
  constructor(place) {
    this.place = place;
    [this.dataset, this.epoch, this.batch] = [place.path[0], Number(place.path[2]) || 0, Number(place.path[4]) || 0];
    this.path = `${datasetPath(this.dataset)}/epochs/${this.epoch}`;
    this.blobs = new Blobs(place.signal);
    this.grid = el("ol", { id: "tiles", class: "tiles" });
    this.pages = el("nav", { class: "buttons pages", "aria-label": "Pages of the batch" });
    this.classes = el("p", { id: "classes" });
    this.unread = el("p", { id: "unread", class: "broken", role: "status" });
    this.panel = el("dialog", { id: "panel", "aria-label": "A sample" });
  }

  async show() {
    const { place } = this, { signal } = place, plan = planOf(place.query);
    place.title(`Batch ${this.batch}, epoch ${this.epoch}, ${visible(this.dataset)}`);
    const [description, answer, jobs] = await Promise.all([describe(this.dataset, signal), request(`${this.path}/batches/${this.batch}/manifest?${and(plan).slice(1)}`, { signal }), isOwn(place.query) && jobsThatRead(place, this.dataset)]);
    this.description = description;
    this.batches = Number(answer.headers.get("Millrace-Batches")) || 0;
    this.samples = (await read(answer)).samples;
    const padded = (plan.tail ?? description.default_plan?.tail) === "pad" && this.batch + 1 >= this.batches;
    this.own = padded ? (await json(this.path, orderOf(place.query), signal)).samples : Infinity; // a padded batch repeats the first samples
    if (signal.aborted) return undefined;
    const total = this.samples.reduce((sum, s) => sum + s.length, 0);
    this.of = this.batches ? ` of ${count(this.batches)}` : "";
    fill(place.main, el("h1", null, `Batch ${count(this.batch)}${this.of}, epoch ${count(this.epoch)}, `, el("a", { href: place.to(["data", this.dataset], plan) }, visible(this.dataset))),
      el("p", { id: "summary" }, `${count(this.samples.length)} samples, ${size(total)}${plan.world_size ? `, the share of rank ${plan.rank ?? 0} of ${plan.world_size}` : ""}, ${this.order(plan)}. Batches count from 0. Keys: j next batch, k previous batch.`), this.classes, jobs, this.unread,
      this.links(plan), goTo(place, this.dataset, { epoch: this.epoch, batch: this.batch }), this.grid, this.pages, this.panel);
    this.panel.addEventListener("close", () => this.closed());
    this.panel.addEventListener("click", (e) => { if (e.target === this.panel) this.panel.close(); });
    this.keys ??= document.addEventListener("keydown", (e) => this.key(e), { signal }) ?? true;
    place.say(`Batch ${this.batch}${this.of}, epoch ${this.epoch}: ${this.samples.length} samples`);
    document.getElementById(focused)?.focus();
    focused = "";
    this.draw();
    this.open();
    return (query) => this.update(query);
  }

  // failed shows the problem, and the form to choose another batch.
  failed(error) {
    const { place } = this;
    fill(place.main, el("h1", null, `Batch ${count(this.batch)}, epoch ${count(this.epoch)}, `, el("a", { href: place.to(["data", this.dataset], planOf(place.query)) }, visible(this.dataset))),
      place.fail(error, () => this.show().catch((e) => this.failed(e))), goTo(place, this.dataset, { epoch: this.epoch, batch: this.batch }));
  }

  // order describes the plan of this batch. A job may use another one.
  order(plan) {
    const p = { ...this.description.default_plan, ...plan };
    return `${p.shuffle ? `shuffle ${p.shuffle}${p.window && p.shuffle !== "none" && p.shuffle !== "full" ? ` ${p.window}` : ""}, ` : ""}seed ${p.seed ?? 0}${isOwn(this.place.query) ? ", the default plan" : ""}${plan.quarantine ? `, without the samples of quarantine ${plan.quarantine.replace(/[0-9a-f]{64}/, (name) => name.slice(0, 12)).slice(0, 40)}` : ""}`;
  }

  address(epoch, batch) {
    return ["data", this.dataset, "epochs", String(epoch), "batches", String(batch)];
  }

  // links returns links to the adjacent batches, across epochs.
  links(plan) {
    const whole = wholeOf(this.place.query), { world_size } = plan;
    const link = (id, text, path, params = plan) => {
      const href = path && this.place.to(path, params);
      this[id] = href;
      return el("a", { id, class: "button", href, "aria-disabled": href ? null : "true", onclick: () => { focused = id; } }, text);
    };
    const last = this.batches - 1, { epoch, batch } = this;
    return el("nav", { class: "buttons", "aria-label": "Batches" },
      link("previous", "Previous batch", batch > 0 ? this.address(epoch, batch - 1) : epoch > 0 && this.batches ? this.address(epoch - 1, last) : null),
      link("next", "Next batch", this.batches && batch >= last ? this.address(epoch + 1, 0) : this.address(epoch, batch + 1)),
      link("next-epoch", "Next epoch", this.address(epoch + 1, 0)),
      world_size && link("whole", "Whole batch", this.address(epoch, batch), whole), link("shuffle-link", "Shuffle", ["shuffle", this.dataset], { ...whole, epoch, world_size }));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.panel.open || document.querySelector("dialog[open]") || e.target.closest?.("input, select, textarea, audio, video, pre, [role=region]")) return;
    const id = { j: "next", ArrowRight: "next", k: "previous", ArrowLeft: "previous" }[e.key];
    if (id && this[id]) location.hash = this[id];
  }

  update(query) {
    const before = this.place.query;
    this.place.query = query;
    if (["from", "sample"].every((n) => before.get(n) === query.get(n)) || String(and(planOf(before))) !== String(and(planOf(query)))) {
      this.blobs.clear();
      this.stop?.abort();
      this.show().catch((e) => this.failed(e));
      return;
    }
    if (before.get("from") !== query.get("from")) this.draw();
    this.open();
  }

  // draw creates the tiles of one page, and removes those of the previous page.
  draw() {
    this.stop?.abort();
    this.stop = new AbortController();
    this.place.signal.addEventListener("abort", () => this.stop.abort(), { once: true });
    this.observer?.disconnect();
    this.blobs.clear();
    const n = this.samples.length, asked = Number(this.place.query.get("from")) || 0;
    this.from = Math.min(Math.max(0, asked), Math.max(0, n - 1));
    this.waiting = [];
    this.running = 0;
    const tiles = this.samples.slice(this.from, this.from + perPage).map((s, i) => this.tile(s, this.from + i));
    fill(this.grid, tiles.map((t) => t.node));
    fill(this.unread);
    this.labels = new Map();
    this.checked = 0;
    fill(this.classes, "\u00a0");
    const params = { ...planOf(this.place.query) };
    const page = (from, text) => from >= 0 && from < n && el("a", { class: "button", href: this.place.to(this.place.path.length ? ["data", ...this.place.path] : [], { ...params, from: from || undefined }) }, text);
    fill(this.pages, n > perPage && [this.from > 0 && page(Math.max(0, this.from - perPage), "Previous 64"), el("span", null, `Samples ${count(this.from + 1)} to ${count(Math.min(n, this.from + perPage))} of ${count(n)}`), page(this.from + perPage, "Next 64")]);
    const byNode = new Map(tiles.map((t) => [t.node, t]));
    this.observer = new IntersectionObserver((seen) => {
      for (const e of seen) {
        if (!e.isIntersecting) continue;
        this.observer.unobserve(e.target);
        this.waiting.push(byNode.get(e.target));
      }
      this.work();
    }, { rootMargin: "600px" });
    this.stop.signal.addEventListener("abort", () => this.observer.disconnect(), { once: true });
    for (const t of tiles) this.observer.observe(t.node);
  }

  tile(s, i) {
    const seen = el("div", { class: "seen" }, el("p", { class: "dim" }, "...")), key = visible(s.key.slice(0, 300)), label = el("p", { class: "label" });
    const node = el("li", { class: "tile", data: { position: s.position } }, seen, label,
      el("a", { class: "key", href: this.place.to(["data", ...this.place.path], { ...planOf(this.place.query), from: this.from || undefined, sample: s.position }), title: key }, ends(key)),
      el("p", { class: "small" }, `Number ${count(i)}, ${size(s.length)}${s.source ? `, ${visible(s.source)}` : ""}`));
    return { s, node, seen, label };
  }

  // work requests the next groups of waiting tiles. A large sample gets a separate request.
  work() {
    const { signal } = this.stop;
    while (this.running < groupsAtOnce && this.waiting.length > 0 && !signal.aborted) {
      const group = [];
      for (let sum = 0; this.waiting.length > 0 && group.length < groupSamples; sum += group.at(-1).s.length) {
        const next = this.waiting[0].s.length;
        if (group.length > 0 && (next > mostLoaded || sum + next > groupBytes)) break;
        group.push(this.waiting.shift());
        if (next > mostLoaded) break;
      }
      this.running++;
      const [round, { blobs }] = [this.stop, this];
      this.fetch(group, signal, blobs).finally(() => {
        if (round !== this.stop) return;
        this.running--;
        this.work();
      });
    }
  }

  at(positions) {
    return `${this.path}/samples?at=${positions.map((p) => p % this.own).join(",")}${and(orderOf(this.place.query))}`;
  }

  // fetch fills the tiles of a group. If the group fails, it requests each sample separately, so that one bad sample hides no others.
  async fetch(group, signal, blobs, tries = 0) {
    try {
      const path = this.at(group.map((t) => t.s.position));
      const found = group.length === 1 ? [await load(path, group[0].s.length, signal)] : samplesOf(await bytes(`${path}&format=framed&table=keys,parts`, { signal }));
      if (signal.aborted) return;
      group.forEach((t, i) => this.put(t, found[i], blobs));
    } catch (e) {
      if (signal.aborted) return;
      if (e.retryable && tries < 3) {
        await sleep(Math.max(1000, e.retryAfter), signal);
        return this.fetch(group, signal, blobs, tries + 1);
      }
      if (group.length > 1 && e.status !== 401 && e.status !== 403 && e.status !== 0) {
        for (const t of group) await this.fetch([t], signal, blobs);
        return;
      }
      for (const t of group) {
        fill(t.seen, el("p", { class: "broken" }, e.detail || e.message), el("button", { type: "button", onclick: () => { fill(t.seen, "..."); this.fetch([t], signal, blobs); } }, "Try again"));
        if (!t.node.dataset.state) this.checked++;
        t.node.dataset.state = "failed";
        this.tell();
      }
    }
  }

  put(tile, sample, blobs) {
    const { s } = tile;
    const parts = sample.parts.slice(0, 64).map((p) => ({ p, name: p.name, found: look(p.bytes, about(this.description, s.source, p)) })).flatMap(unwrap);
    const main = parts.find((x) => isSeen(x.found)), only = parts.length === 1 && !main && parts[0].found.kind !== "value";
    const label = parts.length > 1 ? parts.find(isLabel) : undefined, rest = parts.filter((x) => x !== main && x !== label).slice(0, 8);
    fill(tile.seen, main && whole(main.found, main.bytes ?? main.p.bytes, blobs, `${visible(main.name.slice(0, 60))} of ${visible(s.key.slice(0, 100))}`),
      only ? el("div", { class: "only" }, whole(parts[0].found, parts[0].p.bytes, blobs, "", 700)) : el("ul", { class: "lines" }, rest.map((x) => el("li", { class: x.found.broken ? "broken" : null }, x.name && el("span", { class: "dim" }, `${visible(x.name.slice(0, 60))} `), line(x.found)))),
      s.length > mostLoaded && el("p", { class: "small" }, `${size(s.length)}: only its beginning is loaded.`));
    for (const stop of tile.seen.querySelectorAll("[tabindex]")) stop.removeAttribute("tabindex"); // a tile has one tab stop: its key
    if (!tile.node.dataset.state) this.checked++;
    tile.node.dataset.state = "shown";
    if (label) {
      const text = line(label.found);
      fill(tile.label, visible(`${label.name} `.slice(0, 60)), el("strong", null, text));
      this.labels.set(text, (this.labels.get(text) ?? 0) + 1);
    }
    this.tell();
  }

  // tell shows the number of samples read of each class, and lists the samples that cannot be shown.
  tell() {
    const labels = [...this.labels].sort(([, a], [, b]) => b - a), of = [...this.labels.values()].reduce((sum, n) => sum + n, 0);
    fill(this.classes, labels.length > 0 ? `Classes${of < this.samples.length ? ` (${count(of)} of ${count(this.samples.length)} samples)` : ""}: ${labels.slice(0, mostClasses).map(([text, n]) => `${text} \u00d7${count(n)}`).join(", ")}${labels.length > mostClasses ? `, and ${count(labels.length - mostClasses)} more` : ""}` : "\u00a0");
    const bad = [...this.grid.querySelectorAll(".tile")].filter((t) => t.querySelector(".broken"));
    fill(this.unread, bad.length > 0 && `${count(bad.length)} of ${count(this.checked)} checked samples cannot be shown: `, bad.slice(0, 5).map((t, i) => [i > 0 && ", ", el("a", { href: t.querySelector(".key").hash }, t.querySelector(".key").title)]));
  }

  // open shows the address's sample in the panel.
  open() {
    const wanted = this.place.query.get("sample");
    const i = wanted === null ? -1 : this.samples.findIndex((s) => String(s.position) === wanted);
    this.shown?.clear();
    if (i < 0) {
      if (this.panel.open) this.panel.close();
      return;
    }
    const s = { ...this.samples[i] };
    s.dataset = s.source ?? this.dataset;
    this.shown = details(this.place, this.description, s, { at: this.at([s.position]), epoch: this.epoch, batch: this.batch });
    fill(this.panel, el("div", { class: "head" }, el("h2", { tabindex: -1, autofocus: true }, `Sample ${count(i)} of batch ${count(this.batch)}`), el("button", { type: "button", onclick: () => this.panel.close() }, "Close")), this.shown.node);
    if (!this.panel.open) this.panel.showModal();
    this.panel.scrollTop = 0;
  }

  closed() {
    this.shown?.clear();
    const position = this.place.query.get("sample");
    fill(this.panel);
    if (position === null) return;
    const rest = new URLSearchParams(this.place.query);
    rest.delete("sample");
    this.place.query = rest;
    this.place.replace(Object.fromEntries(rest));
    this.grid.querySelector(`[data-position="${Number(position)}"] a`)?.focus();
  }
}

// isLabel reports whether a part is the class of its sample.
const isLabel = (x) => ["value", "text"].includes(x.found.kind) && /^(cls|labels?|class)$/.test(x.name) && x.found.text.length < 100;

// unwrap divides a record of several values if one of them is an image, audio or video, so that a tile shows it.
function unwrap(x) {
  if (x.found.kind !== "rows" || !x.found.rows.some(([, v]) => isSeen(v))) return [x];
  return x.found.rows.map(([name, found]) => ({ p: x.p, name, found, bytes: found.bytes ?? x.p.bytes }));
}

// ends divides a key: a narrow tile truncates its beginning and shows its end, by which keys differ.
const ends = (key) => (key.length < 18 ? key : [el("span", { class: "head" }, key.slice(0, -12)), el("span", { class: "end" }, key.slice(-12))]);
