// Helpers of the data views: plan parameters in an address, descriptions, sample keys, shell commands.

import { hasToken, json } from "./api.js";
import { count, el } from "./dom.js";
import { jobsOf, plan as planSaid, planOfJob } from "./history.js";
import { batching, order, sharing } from "./parameters.js";

export const orderNames = [...order, ...batching];
export const planNames = [...sharing, "rank", ...orderNames];

const pick = (query, names) => Object.fromEntries(names.map((n) => [n, query.get(n)]).filter(([, v]) => v));
export const planOf = (query) => pick(query, planNames);
export const orderOf = (query) => pick(query, order);
export const wholeOf = (query) => pick(query, orderNames); // parameters of whole batches
export const isOwn = (query) => Object.keys(wholeOf(query)).length === 0; // without parameters an address means the default plan
export const soughtOf = (query) => (query.get("world_size") ? pick(query, [...orderNames, ...sharing]) : wholeOf(query));

export const datasetPath = (name) => `/v1/datasets/${encodeURIComponent(name)}`;

// describe returns the description of a dataset. For a mixture, `described` has the descriptions of its sources by name.
export async function describe(name, signal) {
  const d = await json(datasetPath(name), {}, signal);
  const names = [...new Set((d.sources ?? []).map((s) => s.dataset))];
  const all = await Promise.all(names.map((n) => json(datasetPath(n), {}, signal)));
  d.described = new Map(names.map((n, i) => [n, all[i]]));
  return d;
}

// jobsThatRead lists the plans with which active jobs read a dataset. They may differ from the default plan.
export async function jobsThatRead(place, name) {
  if (!place.root.links?.statistics) return el("p", { class: "small" }, "Jobs may use another plan. Performance, on the gateway's admin port, lists the active ones.");
  const { jobs } = await json("/v1/stats", { readers: "jobs" }, place.signal).catch(() => ({})); // the token may lack the right
  const all = jobsOf(jobs ?? []).filter((j) => j.dataset === name).slice(0, 10);
  return all.length > 0 && el("div", { id: "read-now" }, el("p", null, "Active jobs:"), el("ul", null, all.map((j) => el("li", null, `${planSaid(j)}, ${count(j.ranks.length)} of ${count(j.world_size)} ranks. `,
    el("a", { href: place.to(["data", name], planOfJob(j)) }, "Batches of this plan"), " ", el("a", { href: place.to(["shuffle", name], { ...planOfJob(j), epoch: j.fastest.epoch, world_size: j.world_size }) }, "Shuffle of this plan")))));
}

// about describes a part of a sample for values.js.
export function about(description, source, part) {
  const d = description.described?.get(source) ?? description;
  return {
    name: part.name, length: part.length, whole: part.bytes.length === part.length, format: d.format, constants: d.constants,
    field: d.fields?.find((f) => f.name === part.name) ?? null,
  };
}

// Keys are UTF-8 or Base64. keyQuery has the parameters of a request for a sample.
export const keyBytes = (s) => (s.key_base64 ? Uint8Array.from(atob(s.key_base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(s.key));
const percent = (s) => (s.key_base64 ? [...keyBytes(s)].map((b) => `%${b.toString(16).padStart(2, "0")}`).join("") : encodeURIComponent(s.key.toWellFormed()));
export const keyQuery = (s) => `?key=${percent(s)}${s.shard ? `&shard=${encodeURIComponent(s.shard)}` : ""}`;
export const and = (params) => Object.entries(params).map(([n, v]) => `&${n}=${encodeURIComponent(v)}`).join("");

const sly = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd]/;

// quote formats bytes as one shell word, with escapes for invisible characters and invalid UTF-8.
export function quote(bytes) {
  const text = new TextDecoder().decode(bytes);
  if (!sly.test(text)) return /^[\w@%+=:,./-]+$/.test(text) && /^[^-]/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  return `$'${[...bytes].map((b) => (b > 31 && b < 127 && b !== 39 && b !== 92 ? String.fromCharCode(b) : `\\x${b.toString(16).padStart(2, "0")}`)).join("")}'`;
}

export const quoteText = (text) => quote(new TextEncoder().encode(text));

// quarantine returns the command that excludes a sample, or "" for a key that no command line can contain.
export function quarantine(s) {
  const bytes = keyBytes(s), key = new TextDecoder().decode(bytes);
  if (bytes.includes(0) || key === "") return "";
  if (!key.includes(",") && key === key.trim()) return `millrace quarantine ADDRESS --key=${quote(bytes)}${s.shard ? ` --shard=${quoteText(s.shard)}` : ""} --reason="seen on the page"`;
  if (/[\t\n\r]/.test(key)) return ""; // a key with a comma requires a file, whose lines cannot contain these
  return `printf '%s\\t%s\\t%s\\n' ${quote(bytes)} "seen on the page" ${quoteText(s.shard ?? "")} | millrace quarantine ADDRESS --keys -`;
}

// curl returns the command that downloads a path of the gateway.
export function curl(path, file) {
  const url = new URL(path.replace(/^\//, ""), location.href.replace(/#.*$/, ""));
  return `curl -o ${quoteText(file)}${hasToken() ? ' -H "Authorization: Bearer $MILLRACE_TOKEN"' : ""} ${quoteText(url.href)}`;
}

export const fileName = (text) => text.replace(/[^\w.-]+/g, "_").replace(/^[.-]+/, "_").slice(-100) || "sample";

// goTo returns a form that opens a batch.
export function goTo(place, dataset, { epoch = 0, batch = 0 } = {}) {
  const q = place.query;
  const number = (name, text, value, least = 0) => el("label", null, text, el("br"), el("input", { type: "number", name, min: least, step: 1, required: true, value }));
  const text = (name) => el("label", null, name, el("br"), el("input", { name, value: q.get(name) ?? "", spellcheck: "false", autocomplete: "off", placeholder: "default" }));
  const others = planNames.filter((n) => n !== "rank" && n !== "world_size");
  const submit = (e) => {
    e.preventDefault();
    const f = new FormData(e.target), params = Object.fromEntries(others.map((n) => [n, f.get(n).trim()]));
    if (f.get("world_size") !== "1") Object.assign(params, { rank: f.get("rank"), world_size: f.get("world_size") });
    place.go(["data", dataset, "epochs", f.get("epoch"), "batches", f.get("batch")], params);
  };
  return el("form", { id: "go", onsubmit: submit, autocomplete: "off" },
    el("div", { class: "controls" }, number("epoch", "Epoch", epoch), number("batch", "Batch", batch), number("rank", "Rank", q.get("rank") ?? 0),
      number("world_size", "of ranks", q.get("world_size") ?? 1, 1), el("button", { type: "submit" }, "Go")),
    el("details", { open: others.some((n) => q.get(n)) }, el("summary", null, "More plan parameters"), el("div", { class: "controls" }, others.map(text))));
}

// byKey returns a form that opens a sample.
export function byKey(place, name, pin) {
  const submit = (e) => {
    e.preventDefault();
    const f = new FormData(e.target);
    place.go(["data", name, "sample"], { key: f.get("key"), shard: f.get("shard"), ...pin });
  };
  const input = (n, text, required) => el("label", null, text, el("br"), el("input", { name: n, required, spellcheck: "false", autocomplete: "off" }));
  return el("form", { id: "find", class: "controls", onsubmit: submit, autocomplete: "off" }, input("key", "Key", true), input("shard", "Shard (optional)", false), el("button", { type: "submit" }, "Find"));
}
