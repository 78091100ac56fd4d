// The status view, which is the start of the page: readiness, datasets, active jobs, the bottleneck, and code to read
// a dataset.

import { Problem, json, poll, request } from "./api.js";
import { copyable, count, el, facts, fill, patch, short } from "./dom.js";
import { clock } from "./charts.js";
import { datasetsTable } from "./data.js";
import { Bottleneck, jobsIn, jobsTable } from "./jobs.js";
import { curl, datasetPath, fileName } from "./plan.js";

const every = 2000; // milliseconds between two polls
const manual = "https://github.com/millrace-data/millrace/blob/main/docs/index.md";

export function show(place) {
  const view = new Status(place);
  poll(() => view.look(), every, place.signal, (e) => view.failed(e));
}

class Status {
  constructor(place) {
    this.place = place;
    this.ready = el("p", { id: "ready", role: "status" });
    this.figures = el("div", { id: "figures" });
    this.datasets = el("section", { "aria-label": "Datasets" });
    this.jobs = el("div", { id: "jobs" });
    this.bottleneck = new Bottleneck();
    this.usage = el("section", { id: "usage", "aria-label": "Read a dataset" });
    place.title("Status");
  }

  async look() {
    const { links } = this.place.root, [ready, list, stats] = await Promise.all([this.asksReady(), links.datasets && this.list(), links.statistics && this.stats()]);
    if (this.place.signal.aborted) return;
    patch(this.ready, el("strong", { class: ready.ok ? "good" : "broken" }, ready.ok ? "Ready" : "Not ready"), ready.why && `: ${ready.why}.`);
    if (list) this.drawDatasets(list);
    this.drawStats(stats);
    if (!this.ready.isConnected) this.begin();
  }

  failed(e) {
    if (!this.ready.isConnected) return void fill(this.place.main, el("h1", null, "Status"), this.place.fail(e, null));
    patch(this.ready, el("strong", { class: "broken" }, "No answer"), `: ${e.detail || e.message}`);
  }

  begin() {
    const { links } = this.place.root;
    fill(this.place.main, el("h1", null, "Status"),
      el("p", null, "Millrace serves training data in shuffled, reproducible batches over HTTP. ", el("a", { href: manual, rel: "noopener" }, "Documentation")),
      el("section", { class: "panel", "aria-label": "Gateway" }, this.ready, this.figures),
      this.bottleneck.node, links.datasets && this.datasets,
      el("section", { "aria-label": "Active jobs" }, el("h2", null, "Active jobs"), this.jobs), links.datasets && this.usage);
  }

  // asksReady polls /readyz, which also tells load balancers whether to send new requests.
  async asksReady() {
    try {
      await request("/readyz", { signal: this.place.signal });
      return { ok: true, why: "" };
    } catch (e) {
      if (!(e instanceof Problem) || e.status === 0) throw e;
      return { ok: false, why: e.detail || e.title };
    }
  }

  // list returns the datasets, or a problem. It sends one request: reloading the page shows new datasets.
  async list() {
    this.listed ??= json("/v1/datasets", {}, this.place.signal).catch((e) => {
      if (e.status === 0) throw e;
      return { problem: e };
    });
    try {
      return await this.listed;
    } catch (e) {
      this.listed = undefined;
      throw e;
    }
  }

  // stats returns the statistics, or a problem.
  stats() {
    return this.denied ?? json("/v1/stats", { readers: "jobs" }, this.place.signal).catch((e) => {
      if (e.status === 401 || e.status === 403) this.denied = { problem: e };
      if (e.status === 0) throw e;
      return { problem: e };
    });
  }

  drawDatasets({ datasets, problem }) {
    if (this.datasets.firstChild) return;
    if (problem) return void fill(this.datasets, el("h2", null, "Datasets"), this.place.fail(problem, null));
    this.samples = datasets.reduce((n, d) => n + d.samples, 0);
    this.count = datasets.length;
    fill(this.datasets, el("h2", null, "Datasets"), datasetsTable(this.place, datasets));
    const d = datasets.find((x) => x.default) ?? datasets[0];
    if (d) fill(this.usage, usage(d));
  }

  drawStats(stats) {
    const jobs = stats?.counters ? jobsIn(stats) : null, ranks = jobs?.reduce((n, j) => n + j.ranks.length, 0);
    patch(this.figures, facts([
      ["Datasets", this.count && count(this.count)], ["Samples", this.count && count(this.samples)], ["Active jobs", jobs && count(jobs.length)], ["Active ranks", jobs && count(ranks)],
      ["Samples per second", jobs && short(jobs.reduce((n, j) => n + j.samples, 0))],
    ]));
    this.bottleneck.node.hidden = !jobs;
    if (!jobs) return void patch(this.jobs, el("p", { class: "dim" }, stats ? 'Jobs and the bottleneck require a token with the right "admin".' : "Jobs and the bottleneck are on the gateway's admin port (--admin-listen)."));
    this.bottleneck.draw(stats.limits ?? {}, clock(Date.now() / 1000), this.place.say);
    patch(this.jobs, jobsTable(this.place, jobs, stats.limits?.seconds), jobs.length > 0 && el("p", null, el("a", { href: this.place.to(["performance"]) }, "Ranks and charts")));
  }
}

// usage shows how to read a dataset in Python and with curl.
function usage(d) {
  const base = new URL(".", location.href.replace(/#.*$/, "")).href.replace(/\/$/, ""), plain = location.pathname === "/" && /^[\w.-]+$/.test(d.name);
  const source = plain ? JSON.stringify(`${base}/${d.name}`) : `${JSON.stringify(base)}, dataset=${JSON.stringify(d.name)}`;
  return [
    el("h2", null, "Read a dataset"),
    el("p", null, "In Python, with ", el("code", null, "millrace-data"), " installed:"),
    copyable(`import millrace\n\nwith millrace.open(${source}) as data:\n    for batch in data.epoch(0, global_batch_size=${d.default_plan?.batch_size || 32}):\n        print(len(batch))`),
    el("p", null, "With curl, batch 0 of epoch 0:"),
    copyable(curl(`${datasetPath(d.name)}/epochs/0/batches/0`, `${fileName(d.name)}-0-0.${d.forms?.[0]?.name ?? "bin"}`)),
  ];
}
