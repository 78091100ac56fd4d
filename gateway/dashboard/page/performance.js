// The view of the waiting: what limits the readers now, every job and rank, where bytes come from, and
// what the memory, the store and the other gateways do. It asks /v1/stats every two seconds while the tab
// is looked at, and keeps the figures of ten minutes. #/waiting?rank=2 shows a rank beside its job's median;
// where several jobs have such a rank, `job` is how the name of its job begins.

import { count, duration, el, facts, fill, rate, share, short, size, table } from "./dom.js";
import { Problem, json, poll } from "./api.js";
import { chart, clock } from "./charts.js";
import { Looks, jobsOf, middleOf, plan, planOfJob, sum } from "./looks.js";

const every = 2000; // milliseconds between two looks
const rowsShown = 50; // ranks in the table: those that need a look first

const orders = {
  need: { text: "what needs a look first", of: (r) => [r.batches_behind, r.waiting_share] },
  waits: { text: "waits longest", of: (r) => [r.waiting_share, r.batches_behind] },
  thinks: { text: "takes longest between batches", of: (r) => [r.think_ms, 0] },
  slow: { text: "fewest samples a second", of: (r) => [-r.samples_per_second, 0] },
  rank: { text: "rank", of: (r) => [-r.rank, 0] },
};

export function show(place) {
  if (!place.root.links?.statistics) {
    fill(place.main, el("h1", null, "Waiting"), el("div", { class: "panel" },
      el("p", null, "This port does not show how the gateway fares: the gateway has an admin port."),
      el("p", null, "Open this page there: it is the address that ", el("code", null, "millrace serve --admin-listen"), " names, and the page shows this view alone.")));
    return undefined;
  }
  const view = new Waiting(place);
  poll(() => view.look(), every, place.signal, (e) => view.failed(e));
  return (query) => view.update(query);
}

class Waiting {
  constructor(place) {
    this.place = place;
    this.looks = new Looks();
    this.paused = false;
    this.spoken = "";
    this.build();
    this.update(place.query);
  }

  build() {
    const { signal } = this.place;
    this.sentence = el("p", { id: "limits-sentence" }, "Looking ...");
    this.cure = el("p", { id: "limits-do", class: "dim" });
    this.state = el("p", { id: "as-of", class: "small" });
    this.trouble = el("div", { id: "waiting-problem" });
    this.jobs = el("div", { id: "jobs" });
    this.strip = el("canvas", { id: "strip", role: "img", height: 1, width: 1 });
    this.ranks = el("div", { id: "ranks" });
    this.one = el("section", { id: "rank", class: "panel", hidden: true, tabindex: -1, "aria-label": "One rank", onkeydown: (e) => { if (e.key === "Escape") this.place.go(...this.address()); } });
    this.cluster = el("div", { id: "cluster" });
    this.memory = el("div", { id: "memory" });
    this.pause = el("button", { type: "button", id: "pause", "aria-pressed": "false", onclick: () => this.setPaused(!this.paused) }, "Pause");
    this.sort = el("select", { id: "sort", onchange: () => this.choose() }, Object.entries(orders).map(([name, o]) => el("option", { value: name }, o.text)));
    this.filter = el("input", { id: "filter", type: "search", autocomplete: "off", oninput: () => this.choose() });
    const make = (title, value, most, colors, figures) => {
      const lines = Object.entries(colors).map(([label, color]) => ({ label, color: `--${color}` }));
      return [chart({ title, value, most, lines, x: { time: true }, range: () => this.looks.range(), together: "waiting" }, signal), figures];
    };
    this.charts = [
      make("Bytes a second, by source", rate, 1e6, { memory: "memory", disk: "disk", peer: "peer", store: "store" }, ({ tiers: t }) => [t.memory, t.disk, t.peer, t.store]),
      make("Samples a second", short, 10, { "all ranks": "accent" }, (l) => [l.samples]),
      make("Share of their time that ranks wait", share, 1, { median: "accent", longest: "bad" }, (l) => [l.median, l.longest]),
      make("Requests to the store a second", short, 1, { reads: "store", errors: "bad" }, (l) => [l.reads, l.errors]),
      make("Mean wait of a request for the store", duration, 0.01, { store: "store" }, (l) => [l.latency]),
      make("Memory budget", size, 1 << 20, { "in use": "memory", held: "bad", budget: "dim" }, (l) => [l.used, l.pinned, l.budget]),
    ];
    const section = (title, ...parts) => el("section", { "aria-label": title }, el("h2", null, title), parts);
    this.sections = [el("h1", null, "Waiting"),
      el("section", { class: "panel limits", "aria-label": "What limits the readers now" }, el("h2", null, "What limits now"), this.sentence, this.cure, this.state),
      this.trouble,
      section("Jobs", this.jobs),
      section("Ranks", el("div", { class: "controls" }, el("label", null, "First ", this.sort), el("label", null, "Only ranks with ", this.filter), this.pause),
        el("div", { class: "strip" }, this.strip), this.one, this.ranks),
      section("Over ten minutes", el("div", { class: "charts" }, this.charts.map(([c]) => c.node))),
      section("Memory and store", this.memory),
      this.cluster];
  }

  // begin puts the view onto the page with its first figures, so that nothing moves when they come.
  begin() {
    if (!this.sentence.isConnected) fill(this.place.main, this.sections);
  }

  update(query) {
    this.sort.value = Object.hasOwn(orders, query.get("sort")) ? query.get("sort") : "need";
    this.filter.value = query.get("only") ?? "";
    const before = this.focus;
    this.focus = query.get("rank") === null ? null : { rank: Number(query.get("rank")), job: query.get("job") ?? "" };
    this.wanted = Boolean(this.focus);
    this.drawRanks();
    if (before && !this.focus) [...this.ranks.querySelectorAll("a")].find((a) => a.hash === this.opened)?.focus();
    this.opened = location.hash;
  }

  // address is that of this view, with a rank that is shown or with none.
  address(focus) { return [["waiting"], { sort: this.sort.value === "need" ? "" : this.sort.value, only: this.filter.value, ...focus }]; }

  choose() {
    this.place.replace(this.address(this.focus)[1]);
    this.drawRanks();
  }

  setPaused(paused) {
    this.paused = paused;
    this.pause.setAttribute("aria-pressed", String(paused));
    fill(this.pause, paused ? "Go on" : "Pause");
  }

  async look() {
    if (this.paused) return;
    const { signal } = this.place;
    const stats = await json("/v1/stats", { readers: "jobs" }, signal);
    if (signal.aborted || this.paused) return;
    this.begin();
    patch(this.trouble, stats.counters.millrace_ready === 0 && el("p", { class: "banner" }, "The gateway is shutting down, or it has just started: new readers are sent to others."));
    this.place.main.classList.remove("stale");
    this.stats = stats;
    this.all = jobsOf(stats.jobs ?? []);
    this.every = this.all.flatMap((j) => j.ranks);
    this.looks.add(stats.counters, this.every, Date.now() / 1000);
    this.drawLimits(stats.limits ?? {});
    this.drawJobs();
    this.drawRanks();
    this.drawMemory();
    for (const [c, figures] of this.charts) c.draw(this.looks.columns(figures));
    await this.drawCluster(signal);
  }

  failed(e) {
    this.begin();
    this.place.main.classList.add("stale");
    fill(this.state, this.stats ? `The figures are those of ${clock(this.looks.last())}: the gateway gives no new ones.` : "");
    const p = e.status === 401 ? new Problem({ ...e, detail: `${e.detail}. This view needs the right "admin".` }) : e;
    patch(this.trouble, e.status !== 0 && this.place.fail(p, null)); // of a gateway that does not answer the frame tells
  }

  drawLimits(limits) {
    fill(this.sentence, limits.sentence || "Nothing limits.");
    fill(this.cure, limits.do ? `To do: ${limits.do}.` : "");
    fill(this.state, `As of ${clock(this.looks.last())}, about the last ${duration(Math.round(limits.seconds ?? 0))}.`);
    if (limits.code && limits.code !== this.spoken) {
      if (this.spoken) this.place.say(limits.sentence);
      this.spoken = limits.code;
    }
  }

  drawJobs() {
    if (this.all.length === 0) return void patch(this.jobs, el("p", { class: "dim" }, "Nobody has read in the last five minutes. A job shows here with its first batch."));
    const heads = ["Dataset", "Plan", "Ranks", "Foremost", "Hindmost", "Samples a second", "Waits (median)", "Waits (longest)", "Epoch left"];
    patch(this.jobs, table("Jobs that read", heads.map((text, i) => ({ text, number: i > 1 })), this.all.slice(0, rowsShown).map((j) => [
      this.data(j, ["data", j.dataset], {}, j.dataset), this.data(j, ["order", j.dataset], { epoch: j.foremost.epoch, world_size: j.world_size }, plan(j)), `${count(j.ranks.length)} of ${count(j.world_size)}`, this.position(j, j.foremost), this.position(j, j.hindmost),
      short(j.samples), share(j.median), share(j.longest), duration(j.left) || "-",
    ])), this.all.length > rowsShown && el("p", { class: "small" }, `${count(this.all.length - rowsShown)} more jobs are not shown.`));
  }

  // data leads to what a job reads, where this port serves data.
  data(job, path, more, text, title) {
    return this.place.root.links.datasets ? el("a", { href: this.place.to(path, { ...planOfJob(job), ...more }), title }, text) : text;
  }

  position(job, r) {
    return this.data(job, ["data", job.dataset, "epochs", String(r.epoch), "batches", String(r.batch)], { world_size: job.world_size, rank: r.rank },
      `${count(r.epoch)}:${count(r.batch)}`, `epoch ${r.epoch}, batch ${r.batch}`);
  }

  drawRanks() {
    if (!this.all || this.all.length === 0) {
      fill(this.ranks);
      this.strip.hidden = true;
      this.drawOne();
      return;
    }
    const of = orders[this.sort.value].of, only = this.filter.value.trim().toLowerCase(), { every } = this;
    const kept = every.filter((r) => !only || `${r.job.dataset} rank ${r.rank} of ${r.job.world_size} epoch ${r.epoch}`.toLowerCase().includes(only));
    const sorted = kept.map((r) => [of(r), r]).sort(([a], [b]) => b[0] - a[0] || b[1] - a[1]).slice(0, rowsShown).map(([, r]) => r);
    const held = holds(this.ranks); // then rows do not change places under somebody's hands
    if (held) sorted.sort((a, b) => this.rows.indexOf(keyOf(a)) - this.rows.indexOf(keyOf(b)));
    this.rows = sorted.map(keyOf);
    const heads = ["Dataset", "Rank", "Epoch:batch", "Batches behind", "Samples a second", "Waits for bytes", "Between batches", "Last asked"];
    patch(this.ranks, table("Ranks, and the share of their time that they wait", heads.map((text, i) => ({ text, number: i > 0 })), sorted.map((r) => [
      r.job.dataset, el("a", { href: this.place.to(...this.address({ rank: r.rank, job: this.all.length > 1 ? nameOf(r.job) : "" })) }, `${count(r.rank)} of ${count(r.job.world_size)}`),
      this.position(r.job, r), count(r.batches_behind), short(r.samples_per_second), share(r.waiting_share), duration(r.think_ms / 1000), asked(r),
    ])), el("p", { class: "small" }, `${count(sorted.length)} of ${count(every.length)} ranks are shown.${held ? " They keep their places while the table has the focus." : ""}`));
    this.drawOne();
    this.drawStrip(every);
  }

  // drawOne shows the rank that the address names beside the median rank of its job.
  drawOne() {
    this.one.hidden = !this.focus || !this.all;
    if (this.one.hidden) return;
    const { rank, job } = this.focus, r = this.every.find((e) => e.rank === rank && nameOf(e.job).startsWith(job));
    const title = el("h3", null, `Rank ${count(rank)}${r ? ` of ${nameOf(r.job)}` : ""}`), all = el("p", null, el("a", { href: this.place.to(...this.address()) }, "All ranks"));
    if (!r) return void patch(this.one, title, el("p", null, "No such rank has read in the last five minutes."), all);
    const m = (name) => middleOf(r.job.ranks, name), row = (text, name, write) => [text, write(r[name]), write(m(name))];
    patch(this.one, title, el("p", { id: "why" }, why(r, m)), table("This rank beside its job", ["Figure", "This rank", "Median rank"].map((text, i) => ({ text, number: i > 0 })), [
      ["Epoch:batch", this.position(r.job, r), ""], row("Batches behind", "batches_behind", count), row("Samples a second", "samples_per_second", short), row("Waits for bytes", "waiting_share", share),
      row("Between batches", "think_ms", (ms) => duration(ms / 1000)), ["Last asked", asked(r), ""]]), all);
    if (this.wanted) this.one.focus();
    this.wanted = false;
  }

  // drawStrip paints a cell for each rank, the fuller the longer it waits.
  drawStrip(ranks) {
    const width = Math.max(1, Math.floor(this.strip.parentElement.clientWidth)), cell = ranks.length > 2000 ? 5 : 12;
    const columns = Math.max(1, Math.floor(width / cell)), height = Math.ceil(ranks.length / columns) * cell;
    this.strip.hidden = ranks.length < 2;
    this.strip.width = width;
    this.strip.height = height;
    const pen = this.strip.getContext("2d"), css = getComputedStyle(document.documentElement);
    const [back, bad] = [css.getPropertyValue("--line"), css.getPropertyValue("--bad")];
    ranks.forEach((r, i) => {
      const x = (i % columns) * cell, y = Math.floor(i / columns) * cell, full = Math.round((cell - 1) * Math.min(1, r.waiting_share));
      pen.fillStyle = back;
      pen.fillRect(x, y, cell - 1, cell - 1);
      pen.fillStyle = bad;
      pen.fillRect(x, y + cell - 1 - full, cell - 1, full);
    });
    const waiting = ranks.filter((r) => r.waiting_share > 0.2).length;
    this.strip.setAttribute("aria-label", `A cell for each of ${count(ranks.length)} ranks, filled as far as it waits: ${count(waiting)} wait more than a fifth of their time.`);
  }

  drawMemory() {
    const c = this.stats.counters, l = this.looks.latest(), hits = sum(c, "millrace_cache_hits_total"), misses = sum(c, "millrace_cache_misses_total"), of = (name) => c[`millrace_${name}`] ?? 0;
    patch(this.memory, facts([
      ["Memory budget", size(of("budget_bytes"))], ["in use", size(of("budget_used_bytes"))], ["held by bodies and chunks in use", size(of("budget_pinned_bytes"))],
      ["Requests that wait for memory", count(of("budget_waiting"))], ["Chunks in memory", count(of("cache_chunks"))], ["Found in memory, since the start", hits + misses > 0 ? share(hits / (hits + misses)) : "-"],
      ["Let go before their readers came", count(of("cache_expected_evictions_total"))], ["Requests being answered", count(Math.max(0, of("http_in_flight_requests") - 1))], // without the look itself
      ["From the store, now", l.stored === null ? "-" : rate(l.stored)], ["Chunks on disk", c.millrace_disk_chunks === undefined ? "" : count(of("disk_chunks"))],
    ]));
  }

  async drawCluster(signal) {
    if (!this.place.root.links.cluster) return; // it is alone
    const { self, members } = await json("/v1/cluster", {}, signal);
    patch(this.cluster, el("h2", null, "Gateways that are one cache"), table("Gateways of the cluster", ["Gateway", "State", "Address", "Why", { text: "Hello takes", number: true }, { text: "Bytes from it", number: true }],
      [[self.id, `${self.state}, this one`, self.address, "", "", ""], ...members.map((m) => [m.id, m.state, m.address, m.reason ?? "", duration(m.latency_ms / 1000), size(m.asked?.bytes ?? 0)])]));
  }
}

const nameOf = (j) => `${j.dataset}: ${plan(j)}, ${count(j.world_size)} ranks`;

const keyOf = (r) => `${r.rank} ${nameOf(r.job)}`;

const asked = (r) => (r.idle_seconds < 5 ? "now" : `${duration(Math.round(r.idle_seconds))} ago`);

// why says what a rank does otherwise than the median rank.
function why(r, m) {
  if (r.idle_seconds > 60) return "It asks for nothing: it computes for long, waits for other ranks, or has ended.";
  if (r.waiting_share > 0.2) return m("waiting_share") > r.waiting_share / 2 ? "It waits for bytes, as other ranks do: see what limits now." : "It waits for bytes longer than other ranks: see where its gateway reads from.";
  if (r.think_ms > 1.5 * m("think_ms")) return "It takes longer between batches than other ranks: its program or its machine is slow, not the data.";
  if (r.batches_behind >= m("batches_behind") + 2) return "It asks after the other ranks, and does not wait for bytes. If the ranks train in step, they wait for this one: look at what its machine does to its samples.";
  return "It does as other ranks do.";
}

// holds reports whether the focus or a selection is in a node.
const holds = (node) => node.contains(document.activeElement) || (!getSelection().isCollapsed && node.contains(getSelection().anchorNode));

// patch makes a node hold children, as fill does, and keeps the nodes that are there: with them the focus, a
// selection, and how far somebody has scrolled. Listeners of the children are not taken over.
const patch = (node, ...children) => match(node, fill(node.cloneNode(), ...children));

function match(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return undefined;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const was = [...old.childNodes], now = [...fresh.childNodes];
  was.slice(now.length).forEach((n) => n.remove());
  return now.forEach((n, i) => (was[i] ? match(was[i], n) : old.append(n)));
}
