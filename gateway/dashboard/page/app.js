// The frame of the page. It shows the view of the current address and the state of the gateway.
//
// An address is the URL's fragment: #/data/photos/epochs/3/batches/17?seed=4. Its parts are percent-encoded. A view is a
// module with a function show(place), which fills place.main. show may return a function that updates the view for a new
// query of the same path. A place has
//
//	main    the element to fill
//	path    the decoded parts after the view's name: ["photos", "epochs", "3", "batches", "17"]
//	query   URLSearchParams
//	root    the gateway's response at /: version, links
//	signal  aborts when the user leaves the view; pass it to all requests
//	go(path, params)     navigates to another address; to(path, params) returns that address, for links
//	replace(params)      changes the query in the address bar, without a new entry in the history
//	title(text)          sets the title of the tab
//	say(text)            announces a change to screen readers
//	fail(error, again)   returns an element that shows a problem, with a button to retry

import { el, fill } from "./dom.js";
import { Problem, hasToken, json, onState, query, setToken, sleep } from "./api.js";
import { show as data } from "./data.js";
import { show as batch } from "./batch.js";
import { show as shuffle } from "./shuffle.js";
import { show as performance } from "./performance.js";
import { show as status } from "./status.js";

const views = {
  status: { title: "Status", show: status },
  data: { title: "Data", show: (place) => (place.path.length > 1 ? batch : data)(place) },
  shuffle: { title: "Shuffle", show: shuffle },
  performance: { title: "Performance", show: performance },
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

// failure shows a problem and a button to retry. It retries automatically if the problem is retryable.
function failure(error, again, signal) {
  if (!(error instanceof Problem) && !signal.aborted) console.error(error);
  const p = error instanceof Problem ? error : new Problem({ title: "Error in the page", detail: String(error) });
  const box = el("div", { class: "problem", role: "alert" }, el("h2", null, p.title),
    p.faults.length > 1 ? el("ul", null, p.faults.map((f) => el("li", null, `${f.name ?? ""}: ${f.reason ?? ""}`))) : el("p", null, p.detail), // the detail repeats the list of faults
    el("p", { class: "buttons" },
      again && el("button", { type: "button", onclick: again }, "Try again"),
      p.status === 401 && el("button", { type: "button", onclick: askToken }, hasToken() ? "Use another token" : "Enter a token")),
    p.requestId && el("p", { class: "small" }, `Request ${p.requestId}`));
  if (again && p.retryable) {
    sleep(Math.max(1000, p.retryAfter), signal).then(() => { if (!signal.aborted && box.isConnected) again(); });
  }
  return box;
}

let leave = new AbortController();
let shown = null; // { at, update }: the current view, and its function for a new query
let root = null;

// emptied returns a new element for a view to fill, so that a view that the user has left cannot draw into the next one.
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
    const name = address.view || "status";
    const view = Object.hasOwn(views, name) && views[name];
    for (const link of document.querySelectorAll("nav a")) {
      if (link.id === `nav-${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!view) throw new Problem({ title: "The page has no such view", detail: "Choose a view above." });
    const place = {
      main, path: address.path, query: address.query, root, signal, to, title, say, askToken,
      go: (path, params) => { location.hash = to(path, params); },
      replace: (params) => { // unless the user has navigated to another address
        const now = parse(location.hash);
        if (to([now.view || name, ...now.path]) === to([name, ...address.path])) history.replaceState(null, "", to([name, ...address.path], params));
      },
      fail: (error, again) => failure(error, again, signal),
    };
    title(view.title);
    const update = await view.show(place);
    if (!signal.aborted) shown = { at, update };
  } catch (e) {
    fill(main, el("h1", { class: "unseen" }, "Problem"), failure(e, again, signal));
  }
}

function again() {
  shown = null;
  render();
}

function frame() {
  document.getElementById("version").textContent = root.version ?? "";
  document.getElementById("nav-data").hidden = !root.links?.datasets;
  document.getElementById("nav-shuffle").hidden = !root.links?.datasets;
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
function markToken() { document.getElementById("token").textContent = hasToken() ? "Token: set" : "Token: none"; }
document.getElementById("token").addEventListener("click", askToken);

// The theme follows the system until the user chooses one.
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
