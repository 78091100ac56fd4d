// The performance view: the bottleneck, every job and rank, the sources of bytes, and the state of memory, store and
// cluster. It polls /v1/stats every two seconds while the tab is visible, and stores ten minutes of figures.
// #/performance?rank=2 compares a rank with the median rank of its job; with several jobs, `job` is a prefix of the
// job's name.

import { count, duration, el, facts, fill, patch, rate, share, short, size, table } from "./dom.js";
import { Problem, json, poll } from "./api.js";
import { chart, clock } from "./charts.js";
import { History, middleOf, sum } from "./history.js";
import { Bottleneck, jobsIn, jobsTable, nameOf, positionOf } from "./jobs.js";

const every = 2000; // milliseconds between two polls
const rowsShown = 50; // rows of the table, in the selected order

const orders = {
  need: { text: "needs attention", of: (r) => [r.batches_behind, r.waiting_share] },
  waits: { text: "waits longest", of: (r) => [r.waiting_share, r.batches_behind] },
  thinks: { text: "longest time between batches", of: (r) => [r.think_ms, 0] },
  slow: { text: "fewest samples per second", of: (r) => [-r.samples_per_second, 0] },
  rank: { text: "rank", of: (r) => [-r.rank, 0] },
};

export function show(place) {
  if (!place.root.links?.statistics) {
    fill(place.main, el("h1", null, "Performance"), el("div", { class: "panel" },
      el("p", null, "This port has no statistics: they are on the gateway's admin port."),
      el("p", null, "Open this page at the address of ", el("code", null, "millrace serve --admin-listen"), ".")));
    return undefined;
  }
  const view = new Performance(place);
  poll(() => view.look(), every, place.signal, (e) => view.failed(e));
  return (query) => view.update(query);
}

class Performance {
  constructor(place) {
    this.place = place;
    this.history = new History();
    this.paused = false;
    this.build();
    this.update(place.query);
  }

  build() {
    this.bottleneck = new Bottleneck();
    this.trouble = el("div", { id: "performance-problem" });
    this.jobs = el("div", { id: "jobs" });
    this.strip = el("canvas", { id: "strip", role: "img", height: 1, width: 1, onpointermove: (e) => this.nameCell(e) });
    this.ranks = el("div", { id: "ranks" });
    this.one = el("section", { id: "rank", class: "panel", hidden: true, tabindex: -1, "aria-label": "One rank", onkeydown: (e) => { if (e.key === "Escape") this.place.go(...this.address()); } });
    this.cluster = el("div", { id: "cluster" });
    this.memory = el("div", { id: "memory" });
    this.pause = el("button", { type: "button", id: "pause", "aria-pressed": "false", onclick: () => this.setPaused(!this.paused) }, "Pause");
    this.sort = el("select", { id: "sort", onchange: () => this.choose() }, Object.entries(orders).map(([name, o]) => el("option", { value: name }, o.text)));
    this.filter = el("input", { id: "filter", type: "search", autocomplete: "off", oninput: () => this.choose() });
    this.charts = this.makeCharts();
    this.cells = el("figure", { class: "strip", hidden: true }, el("figcaption", { class: "small" }, "One cell per rank, filled by the share of its time that it waits for data."), el("div", null, this.strip));
    const section = (title, ...parts) => el("section", { "aria-label": title }, el("h2", null, title), parts);
    this.sections = [el("h1", null, "Performance"), this.bottleneck.node, this.trouble,
      section("Jobs", this.jobs),
      section("Ranks", el("div", { class: "controls" }, el("label", null, "Sort by ", this.sort), el("label", null, "Filter ", this.filter), this.pause), this.cells, this.one, this.ranks),
      section("Last ten minutes", el("div", { class: "charts" }, this.charts.map(([c]) => c.node))),
      section("Memory and store", this.memory),
      this.cluster];
  }

  makeCharts() {
    const make = (title, value, most, colors, figures, more) => {
      const lines = Object.entries(colors).map(([label, color]) => ({ label, color: `--${color}` }));
      return [chart({ title, value, most, lines, x: { time: true }, range: () => this.history.range(), together: "performance", ...more }, this.place.signal), figures];
    };
    const idle = { idle: "Nothing was read." }, noStore = { idle: "Nothing was read from the store." };
    return [
      make("Throughput by source", rate, 1e6, { memory: "memory", disk: "disk", peer: "peer", store: "store" }, ({ tiers: t }) => [t.memory, t.disk, t.peer, t.store], idle),
      make("Samples per second", short, 10, { "all ranks": "accent" }, (l) => [l.samples], idle),
      make("Time that ranks wait for data", share, 1, { median: "accent", longest: "bad" }, (l) => [l.median, l.longest], { ...idle, zeros: true }),
      make("Store requests per second", short, 1, { reads: "store", errors: "bad" }, (l) => [l.reads, l.errors], noStore),
      make("Mean latency of the store", duration, 0.01, { store: "store" }, (l) => [l.latency], noStore),
      make("Memory budget", size, 1 << 20, { "in use": "memory", pinned: "bad", budget: "dim" }, (l) => [l.used, l.pinned, l.budget]),
    ];
  }

  // begin shows the sections with their first figures, so that nothing moves when they arrive.
  begin() {
    if (!this.bottleneck.node.isConnected) fill(this.place.main, this.sections);
  }

  update(query) {
    this.sort.value = Object.hasOwn(orders, query.get("sort")) ? query.get("sort") : "need";
    this.filter.value = query.get("only") ?? "";
    const before = this.focus;
    this.focus = query.get("rank") === null ? null : { rank: Number(query.get("rank")), job: query.get("job") ?? "" };
    this.unfocused = Boolean(this.focus);
    this.drawRanks();
    if (before && !this.focus) [...this.ranks.querySelectorAll("a")].find((a) => a.hash === this.opened)?.focus();
    this.opened = location.hash;
  }

  // address returns the address of this view, with the given rank or none.
  address(focus) { return [["performance"], { sort: this.sort.value === "need" ? "" : this.sort.value, only: this.filter.value, ...focus }]; }

  choose() {
    this.place.replace(this.address(this.focus)[1]);
    this.drawRanks();
  }

  setPaused(paused) {
    this.paused = paused;
    this.pause.setAttribute("aria-pressed", String(paused));
    fill(this.pause, paused ? "Resume" : "Pause");
  }

  async look() {
    if (this.paused) return;
    const { signal } = this.place;
    const stats = await json("/v1/stats", { readers: "jobs" }, signal);
    if (signal.aborted || this.paused) return;
    this.begin();
    patch(this.trouble, stats.counters.millrace_ready === 0 && el("p", { class: "banner" }, "The gateway is starting or shutting down: new readers are sent to other gateways."));
    this.place.main.classList.remove("stale");
    this.stats = stats;
    this.all = jobsIn(stats);
    this.every = this.all.flatMap((j) => j.ranks);
    this.history.add(stats.counters, this.every, Date.now() / 1000);
    this.bottleneck.draw(stats.limits ?? {}, clock(this.history.last()), this.place.say);
    patch(this.jobs, jobsTable(this.place, this.all, stats.limits?.seconds));
    this.drawRanks();
    this.drawMemory();
    for (const [c, figures] of this.charts) c.draw(this.history.columns(figures));
    await this.drawCluster(signal);
  }

  failed(e) {
    this.begin();
    this.place.main.classList.add("stale");
    fill(this.bottleneck.period, this.stats ? `Figures of ${clock(this.history.last())}: the gateway sends no new ones.` : "");
    const p = e.status === 401 ? new Problem({ ...e, detail: `${e.detail}. This view requires the right "admin".` }) : e;
    patch(this.trouble, e.status !== 0 && this.place.fail(p, null)); // the frame reports a gateway that does not respond
  }

  drawRanks() {
    if (!this.all || this.all.length === 0) {
      fill(this.ranks);
      this.cells.hidden = true;
      this.drawOne();
      return;
    }
    const of = orders[this.sort.value].of, only = this.filter.value.trim().toLowerCase(), { every } = this;
    const kept = every.filter((r) => !only || `${r.job.dataset} rank ${r.rank} of ${r.job.world_size} epoch ${r.epoch}`.toLowerCase().includes(only));
    const sorted = kept.map((r) => [of(r), r]).sort(([a], [b]) => b[0] - a[0] || b[1] - a[1]).slice(0, rowsShown).map(([, r]) => r);
    const held = isHeld(this.ranks); // rows keep their order while the user works with them
    if (held) sorted.sort((a, b) => this.rows.indexOf(keyOf(a)) - this.rows.indexOf(keyOf(b)));
    this.rows = sorted.map(keyOf);
    const number = (text, minor) => ({ text, number: true, minor });
    const heads = ["Rank", number("Epoch:batch"), number("Batches behind"), number("Samples per second"), number("Waiting for data"), number("Between batches"), number("Last request", true)];
    patch(this.ranks, table(`Ranks, over the last ${duration(Math.round(this.stats.limits?.seconds ?? 0))}`, heads, sorted.map((r) => [
      [el("a", { href: this.place.to(...this.address({ rank: r.rank, job: this.all.length > 1 ? nameOf(r.job) : "" })) }, `${count(r.rank)} of ${count(r.job.world_size)}`), ` ${r.job.dataset}`],
      positionOf(this.place, r.job, r), count(r.batches_behind), short(r.samples_per_second), share(r.waiting_share), duration(r.think_ms / 1000), lastRequest(r),
    ])), el("p", { class: "small" }, `${count(sorted.length)} of ${count(every.length)} ranks are listed.${held ? " Rows keep their places while the table has the focus." : ""}`));
    this.drawOne();
    this.drawStrip(every);
  }

  // drawOne compares the rank of the address with the median rank of its job.
  drawOne() {
    this.one.hidden = !this.focus || !this.all;
    if (this.one.hidden) return;
    const { rank, job } = this.focus, r = this.every.find((e) => e.rank === rank && nameOf(e.job).startsWith(job));
    const title = el("h3", null, `Rank ${count(rank)}${r ? ` of ${nameOf(r.job)}` : ""}`), all = el("p", null, el("a", { href: this.place.to(...this.address()) }, "All ranks"));
    if (!r) return void patch(this.one, title, el("p", null, "No such rank requested a batch in the last five minutes."), all);
    const m = (name) => middleOf(r.job.ranks, name), row = (text, name, write) => [text, write(r[name]), write(m(name))];
    patch(this.one, title, el("p", { id: "why" }, why(r, m)), table("This rank and the median of its job", ["Figure", "This rank", "Median rank"].map((text, i) => ({ text, number: i > 0 })), [
      ["Epoch:batch", positionOf(this.place, r.job, r), ""], row("Batches behind", "batches_behind", count), row("Samples per second", "samples_per_second", short), row("Waiting for data", "waiting_share", share),
      row("Between batches", "think_ms", (ms) => duration(ms / 1000)), ["Last request", lastRequest(r), ""]]), all);
    if (this.unfocused) this.one.focus();
    this.unfocused = false;
  }

  // drawStrip draws one cell per rank, filled according to its waiting share.
  drawStrip(ranks) {
    this.cells.hidden = ranks.length < 2;
    const width = Math.max(1, Math.floor(this.strip.parentElement.clientWidth)), cell = ranks.length > 2000 ? 5 : 12;
    const columns = Math.max(1, Math.floor(width / cell)), height = Math.ceil(ranks.length / columns) * cell;
    this.grid = { ranks, cell, columns };
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
    this.strip.setAttribute("aria-label", `${count(ranks.length)} ranks, one cell each, filled by the share of time waiting for data: ${count(waiting)} wait more than 20 %.`);
  }

  // nameCell shows the name of the rank under the pointer.
  nameCell({ offsetX, offsetY }) {
    const { ranks, cell, columns } = this.grid, r = ranks[Math.floor(offsetY / cell) * columns + Math.min(columns - 1, Math.floor(offsetX / cell))];
    this.strip.title = r ? `rank ${r.rank} of ${nameOf(r.job)}: waits ${share(r.waiting_share)}` : "";
  }

  drawMemory() {
    const c = this.stats.counters, l = this.history.latest(), hits = sum(c, "millrace_cache_hits_total"), misses = sum(c, "millrace_cache_misses_total"), of = (name) => c[`millrace_${name}`] ?? 0;
    patch(this.memory, facts([
      ["Memory budget", size(of("budget_bytes"))], ["Memory in use", size(of("budget_used_bytes"))], ["Pinned by responses and chunks in use", size(of("budget_pinned_bytes"))],
      ["Requests waiting for memory", count(of("budget_waiting"))], ["Chunks in memory", count(of("cache_chunks"))], ["Cache hits since the start", hits + misses > 0 ? share(hits / (hits + misses)) : "-"],
      ["Evicted before use", count(of("cache_expected_evictions_total"))], ["Requests in flight", count(Math.max(0, of("http_in_flight_requests") - 1))], // without this poll
      ["Store throughput", l.stored ? rate(l.stored) : "-"], ["Chunks on disk", c.millrace_disk_chunks === undefined ? "" : count(of("disk_chunks"))],
    ]));
  }

  async drawCluster(signal) {
    if (!this.place.root.links.cluster) return; // a single gateway
    const { self, members } = await json("/v1/cluster", {}, signal);
    patch(this.cluster, el("h2", null, "Cluster"), table("Gateways of the cluster", ["Gateway", "State", { text: "Address", minor: true }, "Reason", { text: "Heartbeat latency", number: true, minor: true }, { text: "Bytes from it", number: true }],
      [[self.id, `${self.state}, this one`, self.address, "", "", ""], ...members.map((m) => [m.id, m.state, m.address, m.reason ?? "", duration(m.latency_ms / 1000), size(m.asked?.bytes ?? 0)])]));
  }
}

const keyOf = (r) => `${r.rank} ${nameOf(r.job)}`;

const lastRequest = (r) => (r.idle_seconds < 5 ? "now" : `${duration(Math.round(r.idle_seconds))} ago`);

// why explains how a rank differs from the median rank.
function why(r, m) {
  if (r.idle_seconds > 60) return "It requests nothing: it computes for a long time, waits for other ranks, or has ended.";
  if (r.waiting_share > 0.2) return m("waiting_share") > r.waiting_share / 2 ? "It waits for data, as other ranks do: see the bottleneck." : "It waits for data longer than other ranks: check the source of its gateway's bytes.";
  if (r.think_ms > 1.5 * m("think_ms")) return "It takes longer between batches than other ranks: its training step, its transforms or its machine is slow, not the gateway.";
  if (r.batches_behind >= m("batches_behind") + 2) return "It requests its batches after the other ranks, and does not wait for data. If the ranks train in step, they wait for this one: check its machine and its transforms.";
  return "It behaves like the other ranks.";
}

// isHeld reports whether the focus or a selection is in a node.
const isHeld = (node) => node.contains(document.activeElement) || (!getSelection().isCollapsed && node.contains(getSelection().anchorNode));
