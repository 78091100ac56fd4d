// Requests to the gateway. All addresses are relative to the page, so that it works behind a proxy that serves the
// gateway under a path. The token is sent in a header, never in an address. Closing the tab deletes it.

const key = "millrace-token";
let token = sessionStorage.getItem(key) ?? "";

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text.trim();
  if (token) sessionStorage.setItem(key, token);
  else sessionStorage.removeItem(key);
}

// Problem is a failed request: the gateway's problem document (RFC 9457), or a connection that failed (status 0).
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title);
    Object.assign(this, { status: 0, code: "", title: "", detail: "", retryable: false, retryAfter: 0, faults: [] }, fields);
  }
}

// The state of the gateway: "" (available), or a sentence for the banner. Listeners receive changes.
const listeners = new Set();
let state = "";
export function onState(listener) { listeners.add(listener); listener(state); }
function setState(text) {
  if (text === state) return;
  state = text;
  for (const l of listeners) l(state);
}

// request fetches a path. It returns a successful response, and throws a Problem otherwise. Options are `signal`,
// `accept`, and `range`: the first and the last byte.
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
    setState("The gateway does not answer. It may be restarting, or the network is down. The page retries automatically.");
    throw new Problem({ title: "The gateway does not answer", detail: "The connection failed: the gateway is stopped, restarting or unreachable.", retryable: true, retryAfter: 2000, cause: e });
  }
  if (answer.ok) {
    setState("");
    return answer;
  }
  throw await problemOf(answer);
}

async function problemOf(answer) {
  let body = {};
  try { body = await answer.json() ?? {}; } catch { /* a proxy responds in another format */ }
  const text = (v) => (typeof v === "string" ? v : "");
  const p = new Problem({
    status: answer.status, code: text(body.code), title: text(body.title) || `The request failed with status ${answer.status}`, detail: text(body.detail),
    retryable: body.retryable === true, retryAfter: Number(body.retry_after_ms) || 1000, faults: Array.isArray(body.faults) ? body.faults.filter(Boolean) : [],
    requestId: text(body.request_id), shards: Array.isArray(body.shards) ? body.shards.map(String) : [],
  });
  setState(p.code === "draining" ? "The gateway is shutting down and accepts no new requests. Other gateways serve the same batches." : "");
  return p;
}

// json fetches JSON. It omits parameters whose value is "" or undefined. Encode dataset names in a path with
// `encodeURIComponent`.
export async function json(path, params = {}, signal) {
  return read(await request(path + query(params), { signal, accept: "application/json" }));
}

// read returns the object of a JSON response.
export async function read(answer) {
  const body = await answer.json().catch(() => null);
  if (body && typeof body === "object") return body;
  throw new Problem({ title: "Invalid response", detail: "The response is truncated, or a proxy replaced it." });
}

// query encodes parameters in the given order.
export function query(params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") q.set(name, value);
  }
  const text = q.toString().replaceAll("+", "%20");
  return text && `?${text}`;
}

// bytes fetches a body or a range of it.
export async function bytes(path, options) {
  const answer = await request(path, options);
  return new Uint8Array(await answer.arrayBuffer().catch((e) => {
    throw options?.signal?.aborted ? e : new Problem({ title: "Truncated response", detail: "The connection ended before the last byte.", retryable: true, retryAfter: 1000, cause: e });
  }));
}

// poll calls `ask` until the signal aborts, except while the page is hidden. The pause is `every` milliseconds or ten
// times the duration of the last call, whichever is longer. `failed` receives Problems, and the next attempt waits for
// the problem's retryAfter.
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
