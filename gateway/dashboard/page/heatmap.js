// The heatmap of a shuffle: batches from left to right, chunks from top to bottom. Darker cells draw more samples.
// heatmap() returns { node, show(rectangle) }. Its options are ask(rectangle), which returns the gateway's response, the
// callbacks opened(batch) and moved(rectangle), and say(text) for screen readers.

import { count, el, fill, short, table } from "./dom.js";

const height = 360;
const mostColumns = 512, mostRows = 256;
const mostLines = 24; // borders of one kind; more would hide the cells

const styles = getComputedStyle(document.documentElement);
const color = (name) => styles.getPropertyValue(name).trim();

// span formats the numbers from one number to another, which is excluded.
const span = (from, to) => (to - from === 1 ? count(from) : `${count(from)} to ${count(to - 1)}`);

// edges returns the limits of part i of a range, like the gateway divides it.
const edges = (from, to, parts, i) => [i, i + 1].map((k) => from + Math.floor((k * (to - from)) / parts));

const few = (borders) => (borders && borders.length <= mostLines ? borders : []);

export function heatmap(options, signal) {
  const { batches, chunks } = options;
  let seen = null, cells = [], cursor = { x: 0, y: 0 }, asked = 0;
  let rectangle = { from: 0, to: batches, from_chunk: 0, to_chunk: chunks };
  const canvas = el("canvas", { width: 600, height });
  const frame = el("div", { class: "wide", tabindex: 0, role: "img", "aria-label": "Loading the heatmap" }, canvas);
  const where = el("p", { class: "small" });
  const words = el("p");
  const column = el("div");
  const button = (text, act, label) => el("button", { onclick: act, "aria-label": label }, text);
  const controls = el("div", { class: "buttons", role: "group", "aria-label": "Move the heatmap" },
    button("+", () => zoom(0.5), "Zoom in"), button("-", () => zoom(2), "Zoom out"),
    button("Earlier", () => pan(-0.5, 0)), button("Later", () => pan(0.5, 0)), button("Up", () => pan(0, -0.5)), button("Down", () => pan(0, 0.5)),
    button("All", () => show({ from: 0, to: batches, from_chunk: 0, to_chunk: chunks })),
    button("Open batch", () => seen && options.opened(batchesOf(cursor.x)[0])));
  const node = el("figure", { class: "chart" }, el("figcaption", null, "Batches from left to right, chunks from top to bottom"), controls, frame, where, words,
    el("details", null, el("summary", null, "Selected column as a table"), column));

  const batchesOf = (x) => edges(seen.from, seen.to, seen.columns, x);
  const rowsOf = (y) => edges(seen.from_chunk, seen.to_chunk, seen.rows, y);

  // rowName returns the chunks of a row, or their places in the order of the epoch.
  function rowName(y) {
    const [from, to] = rowsOf(y);
    if (seen.row_chunks) return `chunk ${count(seen.row_chunks[y])} at place ${count(from)}`;
    const thing = seen.axis === "drawn" ? "place" : "chunk";
    return `${thing}${to - from === 1 ? "" : "s"} ${span(from, to)}`;
  }

  async function show(wanted) {
    const most = (from, to, end) => {
      const n = Math.max(1, Math.min(end, Math.round(to - from)));
      const at = Math.max(0, Math.min(end - n, Math.round(from)));
      return [at, at + n];
    };
    const [from, to] = most(wanted.from, wanted.to, batches), [first, end] = most(wanted.from_chunk, wanted.to_chunk, chunks);
    rectangle = { from, to, from_chunk: first, to_chunk: end };
    const mine = ++asked;
    const width = Math.max(200, frame.clientWidth || 600);
    frame.setAttribute("aria-busy", "true");
    let answer;
    try {
      answer = await options.ask({ ...rectangle, columns: Math.min(mostColumns, Math.floor(width / 2)), rows: mostRows });
    } catch (e) {
      if (!signal.aborted && mine === asked) fill(words, `Loading the heatmap failed: ${e.message}`);
      return;
    }
    if (signal.aborted || mine !== asked) return; // a later request replaces this one
    seen = answer;
    cells = seen.cells.map((runs) => {
      const rows = new Float64Array(seen.rows);
      let y = 0;
      for (const n of runs) {
        if (n < 0) y -= n;
        else rows[y++] = n;
      }
      return rows;
    });
    cursor = { x: Math.min(cursor.x, seen.columns - 1), y: Math.min(cursor.y, seen.rows - 1) };
    frame.removeAttribute("aria-busy");
    paint();
    tell();
    if (mine > 1) options.moved(rectangle); // the first rectangle is already in the address
  }

  function zoom(factor, at = cursor) {
    if (!seen) return;
    const scale = (from, to, part) => {
      const n = (to - from) * factor, middle = from + (to - from) * part;
      return [middle - n * part, middle + n * (1 - part)];
    };
    const [from, to] = scale(rectangle.from, rectangle.to, (at.x + 0.5) / seen.columns);
    const [first, end] = scale(rectangle.from_chunk, rectangle.to_chunk, (at.y + 0.5) / seen.rows);
    show({ from, to, from_chunk: first, to_chunk: end });
  }

  function pan(x, y) {
    const dx = (rectangle.to - rectangle.from) * x, dy = (rectangle.to_chunk - rectangle.from_chunk) * y;
    const step = (d) => Math.sign(d) * Math.ceil(Math.abs(d));
    const { from, to, from_chunk: first, to_chunk: end } = rectangle;
    show({ from: from + step(dx), to: to + step(dx), from_chunk: first + step(dy), to_chunk: end + step(dy) });
  }

  function paint() {
    if (!seen?.columns) return;
    const width = Math.max(200, frame.clientWidth || 600);
    canvas.width = width;
    const small = el("canvas", { width: seen.columns, height: seen.rows });
    const ink = small.getContext("2d");
    ink.fillStyle = color("--accent");
    const most = cells.reduce((m, rows) => rows.reduce((a, b) => Math.max(a, b), m), 1);
    cells.forEach((rows, x) => rows.forEach((n, y) => {
      if (n === 0) return;
      ink.globalAlpha = 0.25 + 0.75 * Math.sqrt(n / most);
      ink.fillRect(x, y, 1, 1);
    }));
    const c = canvas.getContext("2d");
    c.fillStyle = color("--panel");
    c.fillRect(0, 0, width, height);
    c.imageSmoothingEnabled = false;
    c.drawImage(small, 0, 0, width, height);
    c.strokeStyle = color("--text");
    c.lineWidth = 1;
    c.setLineDash([3, 3]);
    for (const border of few(seen.windows?.borders)) line(c, (border.batch - seen.from) / (seen.to - seen.from) * width, true);
    const places = seen.axis === "drawn" ? seen.lanes?.borders ?? seen.windows?.borders?.map((b) => b.place) : [];
    for (const place of few(places)) line(c, (place - seen.from_chunk) / (seen.to_chunk - seen.from_chunk) * height, false);
    c.setLineDash([]);
    c.lineWidth = 2;
    c.strokeRect(cursor.x / seen.columns * width, cursor.y / seen.rows * height, Math.max(6, width / seen.columns), Math.max(6, height / seen.rows));
  }

  function line(c, at, upright) {
    const x = Math.round(at) + 0.5;
    if (at < 0 || at > (upright ? canvas.width : height)) return;
    c.beginPath();
    c.moveTo(upright ? x : 0, upright ? 0 : x);
    c.lineTo(upright ? x : canvas.width, upright ? height : x);
    c.stroke();
  }

  function tell() {
    if (!seen?.columns) {
      fill(words, "The epoch has no batches.");
      return;
    }
    const scale = seen.exact || seen.looked_at === 0 ? 1 : seen.out_of / seen.looked_at;
    const marks = seen.windows ? `; windows: ${count(seen.windows.count)}` : seen.lanes ? `; lanes: ${count(seen.lanes.count)}` : "";
    fill(where, `Batches ${span(seen.from, seen.to)}; ${seen.axis === "drawn" ? "places" : "chunks"} ${span(seen.from_chunk, seen.to_chunk)}${marks}. `,
      seen.exact ? "All samples are counted." : `Estimated from ${count(seen.looked_at)} of ${count(seen.out_of)} samples, evenly spaced.`);
    const [from, to] = batchesOf(cursor.x), these = `Batch${to - from === 1 ? "" : "es"} ${span(from, to)}`;
    const number = (n) => (scale === 1 ? count(n) : `about ${short(n * scale)}`);
    const text = `${these}, ${rowName(cursor.y)}: ${number(cells[cursor.x][cursor.y])} samples.`;
    fill(words, text);
    frame.setAttribute("aria-label", `Which chunks batches draw from. ${text} Arrow keys move, plus and minus zoom, Enter opens the batch.`);
    const rows = [...cells[cursor.x].keys()].filter((y) => cells[cursor.x][y] > 0);
    fill(column, table(`${these} draw${to - from === 1 ? "s" : ""} from`, ["From", { text: "Samples", number: true }],
      rows.slice(0, 100).map((y) => [rowName(y), number(cells[cursor.x][y])])), rows.length > 100 && el("p", null, `${count(rows.length - 100)} more rows: zoom in to see them.`));
  }

  const cellAt = (e) => {
    const box = canvas.getBoundingClientRect();
    const part = (at, n) => Math.max(0, Math.min(n - 1, Math.floor(at * n)));
    return { x: part((e.clientX - box.left) / box.width, seen.columns), y: part((e.clientY - box.top) / box.height, seen.rows) };
  };
  function point(to) {
    cursor = to;
    paint();
    tell();
  }

  frame.addEventListener("keydown", (e) => {
    if (!seen?.columns || e.ctrlKey || e.metaKey || e.altKey) return;
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    const acts = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), PageUp: () => pan(0, -0.5), PageDown: () => pan(0, 0.5), Enter: () => options.opened(batchesOf(cursor.x)[0]) };
    const within = (x, n) => Math.max(0, Math.min(n - 1, x));
    if (by && e.shiftKey) pan(by[0] / 2, by[1] / 2);
    else if (by) point({ x: within(cursor.x + by[0], seen.columns), y: within(cursor.y + by[1], seen.rows) });
    else if (acts[e.key]) acts[e.key]();
    else return;
    e.preventDefault();
    if (by && !e.shiftKey) options.say(words.textContent);
  });
  canvas.addEventListener("wheel", (e) => {
    if (!seen?.columns) return;
    e.preventDefault();
    zoom(e.deltaY < 0 ? 0.7 : 1 / 0.7, cellAt(e));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (e) => {
    if (!seen?.columns) return;
    held = { x: e.clientX, y: e.clientY, rectangle, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!seen?.columns) return;
    if (!held) return point(cellAt(e));
    if (Math.hypot(e.clientX - held.x, e.clientY - held.y) > 4) held.moved = true;
  });
  canvas.addEventListener("pointerup", (e) => {
    if (!held) return;
    const was = held;
    held = null;
    if (!was.moved) {
      point(cellAt(e));
      options.opened(batchesOf(cursor.x)[0]);
      return;
    }
    pan((was.x - e.clientX) / canvas.clientWidth, (was.y - e.clientY) / canvas.clientHeight);
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  document.addEventListener("themechange", paint, { signal });
  const resize = new ResizeObserver(() => paint());
  resize.observe(frame);
  signal.addEventListener("abort", () => resize.disconnect(), { once: true });
  return { node, show };
}
