// Elements and number formats for the views. Text from a gateway becomes a text node or an attribute's value, never markup.

// el creates an element. Props that begin with `on` add listeners, and `data` is a map of data attributes. true sets an
// empty attribute; false, null and undefined set none. Children are nodes, texts, numbers, lists of these, or nothing.
export function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  fill(node, children);
  return node;
}

// fill replaces the children of a node.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(String(c)))));
  return node;
}

// patch replaces the children of a node like fill does, but reuses existing nodes. So the focus, a selection and the
// scroll position stay. It does not copy listeners of the new children.
export const patch = (node, ...children) => match(node, fill(node.cloneNode(), ...children));

function match(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return undefined;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const was = [...old.childNodes], now = [...fresh.childNodes];
  was.slice(now.length).forEach((n) => n.remove());
  return now.forEach((n, i) => (was[i] ? match(was[i], n) : old.append(n)));
}

// table builds a table in a frame that scrolls sideways and can be focused. A head is a text, or { text, number, minor }:
// number marks a column of numbers, minor a column that narrow windows omit. Rows are lists of cells.
export function table(caption, heads, rows) {
  const kind = heads.map((h) => [h.number && "number", h.minor && "minor"].filter(Boolean).join(" ") || null);
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", null, el("caption", null, caption),
      el("thead", null, el("tr", null, heads.map((h, i) => el("th", { scope: "col", class: kind[i] }, h.text ?? h)))),
      el("tbody", null, rows.map((cells) => el("tr", null,
        cells.map((c, i) => el("td", { class: kind[i] }, c)))))));
}

// facts builds a list of names and values from pairs. It omits pairs without a value.
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

// copyable shows text with a button that copies it.
export function copyable(text) {
  const button = el("button", {
    type: "button", class: "copy", onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch { // browsers offer no clipboard without TLS
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    },
  }, "Copy");
  const code = el("code", { tabindex: 0 }, text);
  return el("span", { class: "copyable" }, code, button);
}

// count formats an integer with thousands separators.
export const count = (n) => Number(n).toLocaleString("en-US", { maximumFractionDigits: 0 });

// size formats bytes in binary units, like the command line does.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0, n = Number(bytes);
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 ? Math.round(n) : short(n)} ${units[i]}`;
}

// short formats a number with at most three significant digits.
export function short(n) {
  const a = Math.abs(n);
  if (a >= 1e4) return count(n);
  return Number(n.toPrecision(3)).toString();
}

export const rate = (bytesPerSecond) => `${short(bytesPerSecond / 1e6)} MB/s`;

export const share = (x) => `${Math.round(100 * x)} %`;

// digest shortens a hash; its title is the whole hash.
export const digest = (text) => el("span", { title: text }, text.slice(0, 12));

// duration formats seconds in a suitable unit.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0.001) return `${short(seconds * 1e6)} us`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  if (seconds < 120) return `${short(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${short(seconds / 3600)} h`;
}
