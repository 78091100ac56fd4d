// Active jobs and their bottleneck, for the status view and the performance view.

import { count, duration, el, fill, share, short, table } from "./dom.js";
import { jobsOf, plan, planOfJob } from "./history.js";

const rowsShown = 50;

// nameOf identifies a job in a title and in an address.
export const nameOf = (job) => `${job.dataset}: ${plan(job)}, ${count(job.world_size)} ranks`;

// linkOf links to the data that a job reads. On a port without data it returns only the text.
export function linkOf(place, job, path, more, text, title) {
  return place.root.links.datasets ? el("a", { href: place.to(path, { ...planOfJob(job), ...more }), title }, text) : text;
}

// positionOf returns the last batch that a rank requested, as epoch:batch.
export function positionOf(place, job, rank) {
  return linkOf(place, job, ["data", job.dataset, "epochs", String(rank.epoch), "batches", String(rank.batch)], { world_size: job.world_size, rank: rank.rank },
    `${count(rank.epoch)}:${count(rank.batch)}`, `rank ${rank.rank}, epoch ${rank.epoch}, batch ${rank.batch}`);
}

// jobsTable lists jobs with their fastest and slowest ranks. seconds is the period of the waiting shares.
export function jobsTable(place, jobs, seconds) {
  if (jobs.length === 0) return el("p", { class: "dim" }, "No batch was requested in the last five minutes. A job appears here with its first batch.");
  const number = (text, minor) => ({ text, number: true, minor });
  const heads = ["Job", number("Ranks", true), number("Fastest rank (epoch:batch)"), number("Slowest rank (epoch:batch)"), number("Samples per second", true),
    number("Waiting for data (median)", true), number("Waiting for data (longest)"), number("Epoch left", true)];
  return [
    table(`Active jobs${seconds ? `, waiting over the last ${duration(Math.round(seconds))}` : ""}`, heads, jobs.slice(0, rowsShown).map((j) => [
      [linkOf(place, j, ["data", j.dataset], {}, j.dataset), el("div", { class: "small plan" }, linkOf(place, j, ["shuffle", j.dataset], { epoch: j.fastest.epoch, world_size: j.world_size }, plan(j)))],
      `${count(j.ranks.length)} of ${count(j.world_size)}`, positionOf(place, j, j.fastest), positionOf(place, j, j.slowest), short(j.samples), share(j.median), share(j.longest), duration(j.left) || "-",
    ])),
    jobs.length > rowsShown && el("p", { class: "small" }, `${count(jobs.length - rowsShown)} more jobs are not listed.`),
  ];
}

// Bottleneck is the panel with the gateway's finding: a sentence, the remedy, and the period that they cover.
export class Bottleneck {
  constructor() {
    this.sentence = el("p", { id: "limits-sentence" }, "Measuring ...");
    this.remedy = el("p", { id: "limits-do", class: "dim" });
    this.period = el("p", { id: "as-of", class: "small" });
    this.node = el("section", { class: "panel limits", "aria-label": "Bottleneck" }, el("h2", null, "Bottleneck"), this.sentence, this.remedy, this.period);
    this.spoken = "";
  }

  // draw shows a finding of /v1/stats, and announces a change of its code to screen readers.
  draw(limits, at, say) {
    fill(this.sentence, limits.sentence || "None.");
    fill(this.remedy, limits.do ? `What to do: ${limits.do}.` : "");
    fill(this.period, `As of ${at}, over the last ${duration(Math.round(limits.seconds ?? 0))}.`);
    if (limits.code && limits.code !== this.spoken) {
      if (this.spoken) say(limits.sentence);
      this.spoken = limits.code;
    }
  }
}

// jobsIn returns the jobs in a response of /v1/stats?readers=jobs.
export const jobsIn = (stats) => jobsOf(stats.jobs ?? []);
