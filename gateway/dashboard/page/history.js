// The recent history of a gateway's counters: rates and shares between polls. No function has side effects.

import { order } from "./parameters.js";

const most = 300; // polls: ten minutes, with a poll every two seconds
const span = 600; // seconds

// sum returns the sum of the counters with a name and with labels that contain `label`.
export function sum(counters, name, label = "") {
  let n = 0;
  for (const [key, value] of Object.entries(counters)) {
    if ((key === name || key.startsWith(`${name}{`)) && key.includes(label)) n += value;
  }
  return n;
}

const failures = ["throttled", "denied", "unavailable", "timeout", "short"].map((kind) => `millrace_store_errors_${kind}_total`);

function totals(c) {
  const tier = (name, of) => sum(c, `millrace_tier_${name}_total`, `tier="${of}"`);
  return {
    uptime: c.millrace_uptime_seconds ?? 0, stored: sum(c, "millrace_store_read_bytes_total"),
    tiers: Object.fromEntries(["memory", "disk", "peer", "store"].map((t) => [t, tier("bytes", t)])),
    reads: c.millrace_store_requests_total ?? sum(c, "millrace_store_reads_total"), errors: failures.reduce((n, f) => n + (c[f] ?? 0), 0),
    waited: tier("wait_seconds", "store"), misses: c.millrace_cache_misses_total ?? 0,
  };
}

// History stores rates per second and shares between polls. Counters start at zero after a restart, which a gap (null)
// marks.
export class History {
  constructor() { this.kept = []; }

  add(counters, ranks, at) {
    const now = totals(counters), before = this.before, waits = ranks.filter((r) => r.idle_seconds < 60).map((r) => r.waiting_share).sort((a, b) => a - b);
    const seconds = before ? at - before.at : 0, known = before && seconds > 0 && now.uptime >= before.uptime;
    const by = (a, b) => (known ? Math.max(0, a - b) / seconds : null);
    const asked = known ? now.misses - before.misses : 0;
    this.kept.push({
      at, stored: by(now.stored, before?.stored), tiers: Object.fromEntries(Object.keys(now.tiers).map((t) => [t, by(now.tiers[t], before?.tiers[t])])),
      reads: by(now.reads, before?.reads), errors: by(now.errors, before?.errors), latency: asked > 0 ? Math.max(0, now.waited - before.waited) / asked : null,
      samples: counters.millrace_readers_samples_per_second ?? null, median: middle(waits), longest: waits.at(-1) ?? null,
      used: counters.millrace_budget_used_bytes ?? null, pinned: counters.millrace_budget_pinned_bytes ?? null, budget: counters.millrace_budget_bytes ?? null,
    });
    this.before = { ...now, at };
    while (this.kept.length > most || this.kept[0].at < at - span) this.kept.shift();
  }

  last() { return this.kept.at(-1)?.at ?? 0; }

  latest() { return this.kept.at(-1); }

  // range returns the time axis of the charts: at least two minutes.
  range() { return [Math.min(this.kept[0]?.at ?? 0, this.last() - 120), this.last() || 1]; }

  // columns returns the data of a chart: the times, and the figures of each line.
  columns(figures) {
    const rows = this.kept.map(figures);
    return [this.kept.map((l) => l.at), ...(rows[0] ?? figures({ tiers: {} })).map((_, i) => rows.map((r) => r[i]))];
  }
}

const middle = (sorted) => (sorted.length === 0 ? null : sorted[Math.floor((sorted.length - 1) / 2)]);

// middleOf returns the lower median of a figure of ranks.
export const middleOf = (ranks, name) => middle(ranks.map((r) => r[name]).sort((a, b) => a - b));

const columnsOfRanks = ["rank", "epoch", "batch", "batches_behind", "samples_per_second", "think_ms", "waiting_share", "epoch_left_seconds", "idle_seconds"];

// jobsOf converts the columns of /v1/stats?readers=jobs into ranks, and summarizes each job.
export function jobsOf(jobs) {
  return jobs.map((j) => {
    const greatest = (name) => j[name].reduce((a, b) => Math.max(a, b), 0), job = { ...j };
    job.ranks = j.rank.map((_, i) => {
      const r = { job };
      for (const name of columnsOfRanks) r[name] = j[name][i];
      return r;
    });
    const along = [...job.ranks].sort((a, b) => a.epoch - b.epoch || a.batch - b.batch);
    return Object.assign(job, {
      slowest: along[0], fastest: along.at(-1), median: middleOf(job.ranks, "waiting_share") ?? 0, longest: greatest("waiting_share"),
      samples: job.ranks.reduce((n, r) => n + r.samples_per_second, 0), left: greatest("epoch_left_seconds") || NaN,
    });
  });
}

// planOfJob returns the parameters for the address of a job's batches.
export const planOfJob = (job) => Object.fromEntries([...order, "batch_size"].map((name) => [name, job[name] || ""]));

// plan describes a job's plan in a few words, with digests cut to eight digits.
export function plan(j) {
  const words = [`${j.shuffle}${j.window ? ` ${j.window}` : ""}`, `seed ${j.seed}`, `batches of ${j.batch_size}`];
  const others = order.filter((name) => j[name] && !["shuffle", "window", "seed"].includes(name));
  return [...words, ...others.map((name) => `${name} ${String(j[name]).replace(/[0-9a-f]{64}/g, (digest) => digest.slice(0, 8)).slice(0, 24)}`)].join(", ");
}
