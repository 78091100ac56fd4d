// The page's way to the gateway. All addresses are relative to the page, so that it works behind a proxy
// that serves the gateway under a path. The token travels in a header alone: it is in no address, and
// this tab forgets it when it is closed.

const key = "millrace-token";
let token = sessionStorage.getItem(key) ?? "";

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text.trim();
  if (token) sessionStorage.setItem(key, token);
  else sessionStorage.removeItem(key);
}

// Problem is an answer that is none: what the gateway says (RFC 9457), or that it says nothing.
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title);
    Object.assign(this, { status: 0, code: "", title: "", detail: "", retryable: false, retryAfter: 0, faults: [] }, fields);
  }
}

// What the gateway as a whole is said to be: "" (well), or a sentence. Listeners hear of changes.
const listeners = new Set();
let state = "";
export function onState(listener) { listeners.add(listener); listener(state); }
function setState(text) {
  if (text === state) return;
  state = text;
  for (const l of listeners) l(state);
}

// request asks for a path and returns the answer if it is a good one; it throws a Problem else. A caller
// may give `signal`, `accept`, and `range`, the bytes from and to, both included.
export async function request(path, { signal, accept, range } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (accept) headers.Accept = accept;
  if (range) headers.Range = `bytes=${range[0]}-${range[1]}`;
  let answer;
  try {
    answer = await fetch(path.replace(/^\//, ""), { headers, signal, credentials: "omit", cache: "no-cache", redirect: "error" });
  } catch (e) {
    if (signal?.aborted) throw signal.reason;
    setState("The gateway does not answer. It may be starting again, or the network is cut. The page tries again by itself.");
    throw new Problem({ title: "The gateway does not answer", detail: "The connection failed: the gateway is stopped, starts again, or cannot be reached.", retryable: true, retryAfter: 2000, cause: e });
  }
  if (answer.ok) {
    setState("");
    return answer;
  }
  throw await problemOf(answer);
}

async function problemOf(answer) {
  let body = {};
  try { body = await answer.json() ?? {}; } catch { /* a proxy in between answers in its own words */ }
  const text = (v) => (typeof v === "string" ? v : "");
  const p = new Problem({
    status: answer.status, code: text(body.code), title: text(body.title) || `The answer has status ${answer.status}`, detail: text(body.detail),
    retryable: body.retryable === true, retryAfter: Number(body.retry_after_ms) || 1000, faults: Array.isArray(body.faults) ? body.faults.filter(Boolean) : [],
    requestId: text(body.request_id), shards: Array.isArray(body.shards) ? body.shards.map(String) : [],
  });
  setState(p.code === "draining" ? "The gateway is shutting down: it takes no new requests. Another gateway gives the same batches." : "");
  return p;
}

// json asks for JSON. Parameters whose value is "" or undefined are left out. Names of datasets are parts
// of a path: encode them with `encodeURIComponent`.
export async function json(path, params = {}, signal) {
  return read(await request(path + query(params), { signal, accept: "application/json" }));
}

// read returns the object of an answer.
export async function read(answer) {
  const body = await answer.json().catch(() => null);
  if (body && typeof body === "object") return body;
  throw new Problem({ title: "This is not an answer of a gateway", detail: "It is cut, or a proxy answers in its own words." });
}

// query writes parameters, in the order in which they are given.
export function query(params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") q.set(name, value);
  }
  const text = q.toString().replaceAll("+", "%20");
  return text && `?${text}`;
}

// bytes asks for a body, or for a range of it.
export async function bytes(path, options) {
  const answer = await request(path, options);
  return new Uint8Array(await answer.arrayBuffer().catch((e) => {
    throw options?.signal?.aborted ? e : new Problem({ title: "The answer is cut", detail: "The connection ended before the last byte.", retryable: true, retryAfter: 1000, cause: e });
  }));
}

// poll calls `ask` again and again until the signal ends, and never while the page is hidden: a tab that
// nobody looks at costs nothing. The pause is `every` milliseconds, and ten times what an answer took where
// that is longer. `failed` hears of Problems; the next try comes when the problem says.
export async function poll(ask, every, signal, failed) {
  while (!signal.aborted) {
    if (document.hidden) await visible(signal);
    if (signal.aborted) return;
    const began = performance.now();
    let pause = every;
    try {
      await ask();
      pause = Math.max(every, 10 * (performance.now() - began));
    } catch (e) {
      if (signal.aborted) return;
      failed(e);
      pause = Math.max(every, e.retryAfter ?? 0, e.status === 401 || e.status === 403 ? 30000 : 0);
    }
    await sleep(pause, signal);
  }
}

function visible(signal) {
  return new Promise((resolve) => {
    const done = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", done);
      resolve();
    };
    document.addEventListener("visibilitychange", done);
    signal.addEventListener("abort", done, { once: true });
  });
}

export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
