// What the views build elements and words with. Text from a gateway only ever becomes a text node or an
// attribute's value here, never markup.

// el makes an element. Of props, names that begin with `on` take listeners, `data` is a map of data attributes, true
// sets an empty attribute, and false, null and undefined set none. Children are nodes, texts, numbers, lists of these, or nothing.
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

// fill replaces what a node holds.
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(String(c)))));
  return node;
}

// table builds a table in a frame that scrolls sideways and takes the focus. A head is a text, or
// {text, number: true} for a column of numbers; rows are lists of cells.
export function table(caption, heads, rows) {
  const number = heads.map((h) => (h.number ? "number" : null));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", null, el("caption", null, caption),
      el("thead", null, el("tr", null, heads.map((h, i) => el("th", { scope: "col", class: number[i] }, h.text ?? h)))),
      el("tbody", null, rows.map((cells) => el("tr", null,
        cells.map((c, i) => el("td", { class: number[i] }, c)))))));
}

// facts builds a list of names and values out of pairs; a pair without a value is left out.
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

// copyable shows a command or an address, with a button that copies it.
export function copyable(text) {
  const button = el("button", {
    type: "button", class: "copy", onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch { // without TLS a browser gives pages no clipboard
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    },
  }, "Copy");
  const code = el("code", { tabindex: 0 }, text);
  return el("span", { class: "copyable" }, code, button);
}

// count writes a whole number with a comma before each three digits.
export const count = (n) => Number(n).toLocaleString("en-US", { maximumFractionDigits: 0 });

// size writes bytes in the units of the command line.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0, n = Number(bytes);
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 ? Math.round(n) : short(n)} ${units[i]}`;
}

// short writes a number with three digits at most.
export function short(n) {
  const a = Math.abs(n);
  if (a >= 1e4) return count(n);
  return Number(n.toPrecision(3)).toString();
}

export const rate = (bytesPerSecond) => `${short(bytesPerSecond / 1e6)} MB/s`;

export const share = (x) => `${Math.round(100 * x)} %`;

// duration writes seconds.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0.001) return `${short(seconds * 1e6)} us`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  if (seconds < 120) return `${short(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${short(seconds / 3600)} h`;
}
