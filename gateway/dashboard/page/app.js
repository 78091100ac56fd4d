// The frame of the page: it finds the view of an address, shows it, and says how the gateway fares.
//
// An address is the fragment: #/data/photos/epochs/3/batches/17?seed=4. Parts are percent-encoded, so a
// name may hold anything. A view is a module with one function, show(place), which fills place.main and
// returns nothing, or a function that takes a new query of the same path: then the view stays, and what it
// shows changes in place. A place has
//
//	main    the element to fill
//	path    the parts after the view's name, decoded: ["photos", "epochs", "3", "batches", "17"]
//	query   URLSearchParams
//	root    what the gateway says of itself: version, links
//	signal  ends when the view is left; give it to all requests
//	go(path, params)     leads to another address; to(path, params) is that address, for links
//	replace(params)      changes the query in the address bar, without a new entry in the history
//	title(text)          names the view in the tab
//	say(text)            tells screen readers what has changed
//	fail(error, again)   shows a problem, with a button that tries again, in an element to be placed

import { el, fill } from "./dom.js";
import { Problem, hasToken, json, onState, query, setToken, sleep } from "./api.js";
import { show as data } from "./data.js";
import { show as batch } from "./batch.js";
import { show as order } from "./order.js";
import { show as waiting } from "./waiting.js";

const views = {
  data: { title: "Data", show: (place) => (place.path.length > 1 ? batch : data)(place) },
  order: { title: "Order", show: order },
  waiting: { title: "Waiting", show: waiting },
};

export const to = (path, params = {}) => `#/${path.map(encodeURIComponent).join("/")}${query(params)}`;

function parse(hash) {
  const [path, q] = split(hash.replace(/^#\/?/, ""), "?");
  const parts = path.split("/").filter((p) => p !== "").map((p) => {
    try { return decodeURIComponent(p); } catch { return p; }
  });
  return { view: parts[0] ?? "", path: parts.slice(1), query: new URLSearchParams(q) };
}

function split(text, at) {
  const i = text.indexOf(at);
  return i < 0 ? [text, ""] : [text.slice(0, i), text.slice(i + 1)];
}

// failure shows a problem, what to do about it, and a button; it tries again by itself where that may help.
function failure(error, again, signal) {
  if (!(error instanceof Problem) && !signal.aborted) console.error(error);
  const p = error instanceof Problem ? error : new Problem({ title: "The page itself has failed", detail: String(error) });
  const box = el("div", { class: "problem", role: "alert" }, el("h2", null, p.title),
    p.faults.length > 1 ? el("ul", null, p.faults.map((f) => el("li", null, `${f.name ?? ""}: ${f.reason ?? ""}`))) : el("p", null, p.detail), // the detail repeats them
    el("p", { class: "buttons" },
      again && el("button", { type: "button", onclick: again }, "Try again"),
      p.status === 401 && el("button", { type: "button", onclick: askToken }, hasToken() ? "Use another token" : "Give a token")),
    p.requestId && el("p", { class: "small" }, `Request ${p.requestId}`));
  if (again && p.retryable) {
    sleep(Math.max(1000, p.retryAfter), signal).then(() => { if (!signal.aborted && box.isConnected) again(); });
  }
  return box;
}

let leave = new AbortController();
let shown = null; // { at, update }: the view on the screen, and what it does with another query
let root = null;

// emptied returns a new element for a view to fill, so that a view that was left draws nothing over the next one.
function emptied() {
  const main = el("main", { id: "main", tabindex: -1 }), old = document.getElementById("main"), focused = old === document.activeElement;
  old.replaceWith(main);
  if (focused) main.focus();
  return main;
}

async function render() {
  const address = parse(location.hash);
  const at = JSON.stringify([address.view, address.path]);
  if (shown?.at === at && shown.update) {
    shown.update(address.query);
    return;
  }
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  shown = null;
  say("");
  const main = emptied();
  fill(main, el("p", { class: "loading" }, "Loading ..."));
  try {
    root ??= await json("./", {}, signal);
    if (signal.aborted) return;
    frame();
    const name = address.view || (root.links?.datasets ? "data" : "waiting");
    const view = Object.hasOwn(views, name) && views[name];
    for (const link of document.querySelectorAll("nav a")) {
      if (link.id === `nav-${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!view) throw new Problem({ title: "The page has no such view", detail: "The address names none of the views: choose one above." });
    const place = {
      main, path: address.path, query: address.query, root, signal, to, title, say, askToken,
      go: (path, params) => { location.hash = to(path, params); },
      replace: (params) => { // not while another address waits for its turn
        const now = parse(location.hash);
        if (to([now.view || name, ...now.path]) === to([name, ...address.path])) history.replaceState(null, "", to([name, ...address.path], params));
      },
      fail: (error, again) => failure(error, again, signal),
    };
    title(view.title);
    const update = await view.show(place);
    if (!signal.aborted) shown = { at, update };
  } catch (e) {
    fill(main, el("h1", { class: "unseen" }, "A problem"), failure(e, again, signal));
  }
}

function again() {
  shown = null;
  render();
}

function frame() {
  document.getElementById("version").textContent = root.version ?? "";
  document.getElementById("nav-data").hidden = !root.links?.datasets;
  document.getElementById("nav-order").hidden = !root.links?.datasets;
}

function title(text) { document.title = `${text} - Millrace`; }

function say(text) { document.getElementById("spoken").textContent = text; }

const dialog = document.getElementById("token-dialog");
function askToken() {
  document.getElementById("token-text").value = "";
  dialog.showModal();
}
dialog.addEventListener("close", () => {
  const text = document.getElementById("token-text");
  const given = text.value;
  text.value = "";
  if (dialog.returnValue === "use" && given) setToken(given);
  else if (dialog.returnValue === "forget") setToken("");
  else return;
  markToken();
  again();
});
function markToken() { document.getElementById("token").textContent = hasToken() ? "Token: given" : "Token: none"; }
document.getElementById("token").addEventListener("click", askToken);

// The theme is the system's, until somebody chooses another one.
const themes = ["system", "light", "dark"];
function setTheme(theme) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
  document.dispatchEvent(new Event("themechange"));
}
document.getElementById("theme").addEventListener("click", () => {
  const next = themes[(themes.indexOf(localStorage.getItem("millrace-theme") ?? "system") + 1) % themes.length];
  localStorage.setItem("millrace-theme", next);
  setTheme(next);
});

setTheme(themes.includes(localStorage.getItem("millrace-theme")) ? localStorage.getItem("millrace-theme") : "system");
markToken();
onState((text) => fill(document.getElementById("status"), text && el("p", { class: "banner" }, text)));
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); document.getElementById("main").focus(); });
window.addEventListener("hashchange", render);
render();
