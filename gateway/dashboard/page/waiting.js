// The view of the waiting: what limits the readers now, every job and rank, where bytes come from, and
// what the memory, the store and the other gateways do. It asks /v1/stats every two seconds while the tab
// is looked at, and keeps the figures of ten minutes.

import { count, duration, el, facts, fill, rate, share, short, size, table } from "./dom.js";
import { Problem, json, poll } from "./api.js";
import { chart, clock } from "./charts.js";
import { Looks, jobsOf, plan, sum } from "./looks.js";

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
    this.cluster = el("div", { id: "cluster" });
    this.memory = el("div", { id: "memory" });
    this.pause = el("button", { type: "button", id: "pause", "aria-pressed": "false", onclick: () => this.setPaused(!this.paused) }, "Pause");
    this.sort = el("select", { id: "sort", onchange: () => this.choose() }, Object.entries(orders).map(([name, o]) => el("option", { value: name }, o.text)));
    this.filter = el("input", { id: "filter", type: "search", autocomplete: "off", oninput: () => this.choose() });
    const ten = { time: true }, range = () => this.looks.range();
    const make = (title, value, lines, more) => chart({ title, value, x: ten, range, lines, together: "waiting", ...more }, signal);
    this.charts = [
      [make("Bytes a second, by where they come from", rate, ["memory", "disk", "peer", "store"].map((t) => ({ label: t, color: `--${t}` })), { most: 1e6 }),
        (l) => ["memory", "disk", "peer", "store"].map((t) => l.tiers[t])],
      [make("Samples a second", short, [{ label: "all ranks", color: "--accent" }], { most: 10 }), (l) => [l.samples]],
      [make("Share of their time that ranks wait", share, [{ label: "median", color: "--accent" }, { label: "longest", color: "--bad" }], { most: 1 }), (l) => [l.median, l.longest]],
      [make("Requests to the store a second", short, [{ label: "reads", color: "--store" }, { label: "errors", color: "--bad" }], { most: 1 }), (l) => [l.reads, l.errors]],
      [make("Mean wait of a request for the store", duration, [{ label: "store", color: "--store" }], { most: 0.01 }), (l) => [l.latency]],
      [make("Memory budget", size, [{ label: "in use", color: "--memory" }, { label: "held", color: "--bad" }, { label: "budget", color: "--dim" }], { most: 1 << 20 }), (l) => [l.used, l.pinned, l.budget]],
    ];
    fill(this.place.main, el("h1", null, "Waiting"),
      el("section", { class: "panel limits", "aria-label": "What limits the readers now" }, el("h2", null, "What limits now"), this.sentence, this.cure, this.state),
      this.trouble,
      el("section", { "aria-label": "Jobs" }, el("h2", null, "Jobs"), this.jobs),
      el("section", { "aria-label": "Ranks" }, el("h2", null, "Ranks"),
        el("div", { class: "controls" }, el("label", null, "First ", this.sort), el("label", null, "Only ranks with ", this.filter), this.pause),
        el("div", { class: "strip" }, this.strip), this.ranks),
      el("section", { "aria-label": "Over ten minutes" }, el("h2", null, "Over ten minutes"), el("div", { class: "charts" }, this.charts.map(([c]) => c.node))),
      el("section", { "aria-label": "Memory and store" }, el("h2", null, "Memory and store"), this.memory),
      this.cluster);
  }

  update(query) {
    this.sort.value = orders[query.get("sort")] ? query.get("sort") : "need";
    this.filter.value = query.get("only") ?? "";
    this.drawRanks();
  }

  choose() {
    this.place.replace({ sort: this.sort.value === "need" ? "" : this.sort.value, only: this.filter.value });
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
    fill(this.trouble);
    this.place.main.classList.remove("stale");
    this.stats = stats;
    this.all = jobsOf(stats.jobs ?? []);
    this.looks.add(stats.counters, this.all.flatMap((j) => j.ranks), Date.now() / 1000);
    this.drawLimits(stats.limits ?? {});
    this.drawJobs();
    this.drawRanks();
    this.drawMemory();
    for (const [c, figures] of this.charts) c.draw(this.looks.columns(figures));
    await this.drawCluster(signal);
  }

  failed(e) {
    this.place.main.classList.add("stale");
    fill(this.state, this.stats ? `The figures are those of ${clock(this.looks.last())}: the gateway gives no new ones.` : "");
    const lacks = e instanceof Problem && (e.status === 403 || e.status === 401);
    const p = lacks ? new Problem({ ...e, detail: `${e.detail}. This view needs the right "admin".` }) : e;
    fill(this.trouble, this.place.fail(p, null));
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
    if (this.all.length === 0) return void fill(this.jobs, el("p", { class: "dim" }, "Nobody has read in the last five minutes. A job shows here with its first batch."));
    const heads = ["Data set", "Plan", "Ranks", "Foremost", "Hindmost", "Samples a second", "Waits (median)", "Waits (longest)", "Epoch left"];
    fill(this.jobs, table("Jobs that read", heads.map((text, i) => ({ text, number: i > 1 })), this.all.slice(0, rowsShown).map((j) => [
      j.dataset, plan(j), `${count(j.ranks.length)} of ${count(j.world_size)}`, this.position(j, j.foremost), this.position(j, j.hindmost),
      short(j.samples), share(j.median), share(j.longest), duration(j.left) || "-",
    ])), this.all.length > rowsShown && el("p", { class: "small" }, `${count(this.all.length - rowsShown)} more jobs are not shown.`));
  }

  // position leads to a batch where this port serves data.
  position(job, r) {
    const text = `${count(r.epoch)}:${count(r.batch)}`;
    if (!this.place.root.links.datasets) return text;
    const { dataset, shuffle, window, strata, seed, importance, subset, batch_size, world_size } = job;
    return el("a", {
      href: this.place.to(["data", dataset, "epochs", String(r.epoch), "batches", String(r.batch)],
        { shuffle, window: window || "", strata: strata || "", seed, importance, subset, batch_size, world_size, rank: r.rank }),
      title: `epoch ${r.epoch}, batch ${r.batch}`,
    }, text);
  }

  drawRanks() {
    if (!this.all || this.all.length === 0) {
      fill(this.ranks);
      this.strip.hidden = true;
      return;
    }
    const of = orders[this.sort.value].of, only = this.filter.value.trim().toLowerCase();
    const every = this.all.flatMap((j) => j.ranks.map((r) => ({ ...r, job: j })));
    const kept = every.filter((r) => !only || `${r.job.dataset} rank ${r.rank} epoch ${r.epoch}`.toLowerCase().includes(only));
    const sorted = kept.map((r) => [of(r), r]).sort(([a], [b]) => b[0] - a[0] || b[1] - a[1]).slice(0, rowsShown).map(([, r]) => r);
    const heads = ["Data set", "Rank", "Epoch:batch", "Batches behind", "Samples a second", "Waits for bytes", "Between batches", "Last asked"];
    fill(this.ranks, table("Ranks, and the share of their time that they wait", heads.map((text, i) => ({ text, number: i > 0 })), sorted.map((r) => [
      r.job.dataset, `${count(r.rank)} of ${count(r.job.world_size)}`, this.position(r.job, r), count(r.batches_behind), short(r.samples_per_second),
      share(r.waiting_share), duration(r.think_ms / 1000), r.idle_seconds < 5 ? "now" : `${duration(Math.round(r.idle_seconds))} ago`,
    ])), el("p", { class: "small" }, `${count(sorted.length)} of ${count(every.length)} ranks are shown.`));
    this.drawStrip(every);
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
    const c = this.stats.counters, l = this.looks.latest(), hits = sum(c, "millrace_cache_hits_total"), misses = sum(c, "millrace_cache_misses_total");
    fill(this.memory, facts([
      ["Memory budget", size(c.millrace_budget_bytes ?? 0)], ["in use", size(c.millrace_budget_used_bytes ?? 0)], ["held by bodies and chunks in use", size(c.millrace_budget_pinned_bytes ?? 0)],
      ["Requests that wait for memory", count(c.millrace_budget_waiting ?? 0)], ["Chunks in memory", count(c.millrace_cache_chunks ?? 0)],
      ["Found in memory, since the start", hits + misses > 0 ? share(hits / (hits + misses)) : "-"],
      ["Let go before their readers came", count(c.millrace_cache_expected_evictions_total ?? 0)],
      ["Requests being answered", count(Math.max(0, (c.millrace_http_in_flight_requests ?? 1) - 1))], // without the look itself
      ["From the store, now", l?.stored === undefined || l.stored === null ? "-" : rate(l.stored)], ["Chunks on disk", c.millrace_disk_chunks === undefined ? "" : count(c.millrace_disk_chunks)],
    ]));
  }

  async drawCluster(signal) {
    if (!this.place.root.links.cluster) return; // it is alone
    const { self, members } = await json("/v1/cluster", {}, signal);
    fill(this.cluster, el("h2", null, "Gateways that are one cache"), table("Gateways of the cluster", ["Gateway", "State", "Address", "Why", { text: "Hello takes", number: true }, { text: "Bytes from it", number: true }],
      [{ ...self, state: `${self.state}, this one` }, ...members].map((m) => [m.id, m.state, m.address, m.reason ?? "", duration(m.latency_ms / 1000), size(m.asked?.bytes ?? 0)])));
  }
}
