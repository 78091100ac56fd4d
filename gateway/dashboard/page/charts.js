// Charts: lines over time or over a number, drawn by uPlot (the global `uPlot`). This module adds colors that follow
// the theme, dashes that distinguish lines without color, a size that follows the frame, a legend with figures in
// text, a text for idle charts, and a description for screen readers.
//
//	const c = chart({
//	  title: "Throughput",
//	  lines: [{ label: "memory", color: "--memory" }],
//	  value: rate,                          // formats a figure
//	  x: { time: true },                    // or { label: "Window", value: count }, for numbers
//	  range: () => [from, to],              // of x; default: the range of the data
//	  most: 1,                              // minimum of the upper end of y; the lower end is 0
//	  idle: "Nothing was read.",            // shown in place of lines that are all zero or null
//	  zeros: true,                          // zeros are data: only null counts as idle
//	}, signal);
//	fill(main, c.node);
//	c.draw([xs, ys of line 1, ys of line 2]); // ascending xs; null is a gap
//	c.mark(x);                                // a vertical line at x, such as a slider's value; null: none
//
// When the signal aborts, the chart frees its memory and listeners.

import { el, fill } from "./dom.js";

const styles = getComputedStyle(document.documentElement);
const css = (name) => styles.getPropertyValue(name).trim();
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3], [1, 5]];
const font = "12px system-ui, sans-serif";

// charts has the charts of the current view. A change of theme redraws them.
const charts = new Set();
const redrawAll = () => { for (const u of charts) u.redraw(false, true); };
document.addEventListener("themechange", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

// clock formats a time of day in the local time zone.
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

export function chart(options, signal) {
  const lines = options.lines.map((line, i) => ({ dash: dashes[i % dashes.length], value: options.value ?? String, ...line }));
  const x = options.x ?? {};
  const writeX = x.time ? clock : x.value ?? String;
  const writeMark = x.time ? (seconds) => clock(seconds).slice(0, 5) : writeX;
  const nothing = options.idle && el("p", { class: "chart-idle dim", hidden: true }, options.idle);
  const frame = el("div", { class: "chart-frame", tabindex: 0, role: "img", "aria-label": options.title }, nothing);
  const figures = lines.map(() => el("td", { class: "number" }));
  const at = el("span", { class: "chart-at" });
  const legend = el("table", { class: "chart-legend" }, el("tbody", null, lines.map((line, i) => el("tr", null,
    el("th", { scope: "row" }, sample(line), line.label), figures[i]))));
  const node = el("figure", { class: "chart" }, el("figcaption", null, options.title, at), frame, legend);
  let data = [[], ...lines.map(() => [])];
  let marked = null, idle = false;

  const u = new window.uPlot({
    width: 300, height: 150, legend: { show: false }, padding: [8, 20, 0, 0],
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 }, ...(options.together && { sync: { key: options.together } }) },
    scales: {
      x: { time: Boolean(x.time), ...(options.range && { range: () => options.range() }), ...(x.log && { distr: 3, log: 2 }) },
      y: { range: (_, __, most) => [0, Math.max(options.most ?? 0, (most ?? 0) * 1.05) || 1] },
    },
    axes: [
      {
        ...axis(), values: (_, marks) => marks.map((m) => (m === null ? "" : writeMark(m))),
        ...(x.time && { size: 28, space: 60, incrs: [60, 120, 300, 600, 3600, 86400] }),
        ...(x.label && { label: x.label, labelSize: 20, labelFont: font }),
      },
      { ...axis(), size: 84, values: (_, marks) => marks.map((m) => (m === null ? "" : (options.value ?? String)(m))) },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.label, stroke: () => css(line.color), width: 2, dash: line.dash, points: { show: options.points === true, size: 5 },
    }))],
    hooks: { setCursor: [show], draw: [drawMark] },
  }, data, frame);

  // show displays the figures at the cursor, otherwise at the mark, otherwise the last ones.
  function show() {
    const i = u.cursor.idx;
    const known = i !== null && i !== undefined && data[0][i] !== undefined;
    const j = known ? i : marked === null ? data[0].length - 1 : data[0].indexOf(marked);
    lines.forEach((line, n) => fill(figures[n], idle ? "-" : write(line, data[n + 1][j])));
    const text = known ? `at ${writeX(data[0][i])}` : "";
    if (at.textContent !== text) fill(at, text);
  }

  function drawMark() {
    if (marked === null || data[0].length === 0) return;
    const px = Math.round(u.valToPos(marked, "x", true));
    u.ctx.save();
    u.ctx.strokeStyle = css("--text");
    u.ctx.setLineDash([4, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(px, u.bbox.top);
    u.ctx.lineTo(px, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  }

  const resize = new ResizeObserver(() => {
    if (frame.clientWidth > 0) u.setSize({ width: frame.clientWidth, height: frame.clientHeight });
  });
  resize.observe(frame);
  frame.addEventListener("keydown", (e) => move(e, u, data[0].length));
  frame.addEventListener("blur", () => u.setCursor({ left: -10, top: -10 }));
  charts.add(u);
  signal.addEventListener("abort", () => {
    charts.delete(u);
    resize.disconnect();
    u.destroy();
  }, { once: true });

  return {
    node,
    draw(columns) {
      data = columns;
      idle = Boolean(options.idle) && columns.slice(1).every((ys) => ys.every((v) => v === null || v === undefined || (v === 0 && !options.zeros)));
      if (nothing) nothing.hidden = !idle;
      frame.classList.toggle("idle", idle);
      u.setData(columns);
      show();
      frame.setAttribute("aria-label", idle ? `${options.title}: ${options.idle}` : describe(options.title, lines, data, writeX));
    },
    mark(to) {
      marked = to;
      show();
      u.redraw(false, false);
    },
  };
}

const axis = () => ({ stroke: () => css("--dim"), font, grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 } });

const write = (line, v) => (v === null || v === undefined ? "-" : line.value(v));

// move moves the cursor between points with the arrow keys.
function move(e, u, n) {
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -n, End: n }[e.key];
  if (!step || n === 0) return;
  e.preventDefault();
  const from = u.cursor.idx ?? (step < 0 ? n : -1);
  const to = Math.min(n - 1, Math.max(0, from + step));
  u.setCursor({ left: u.valToPos(u.data[0][to], "x"), top: 0 });
}

// sample draws a piece of a line for the legend.
function sample(line) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg"), stroke = document.createElementNS(ns, "line");
  for (const [name, v] of Object.entries({ width: 28, height: 10, "aria-hidden": "true" })) svg.setAttribute(name, v);
  for (const [name, v] of Object.entries({ x1: 0, y1: 5, x2: 28, y2: 5, "stroke-width": 2.5, "stroke-dasharray": line.dash.join(" ") })) stroke.setAttribute(name, v);
  stroke.style.stroke = `var(${line.color})`;
  svg.append(stroke);
  return svg;
}

// describe returns the text of a chart for screen readers.
function describe(title, lines, data, writeX) {
  const [xs] = data;
  if (xs.length === 0) return `${title}: no figures yet`;
  const parts = lines.map((line, n) => {
    const known = data[n + 1].filter((v) => v !== null && v !== undefined);
    if (known.length === 0) return `${line.label}: unknown`;
    const [least, most] = known.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    return `${line.label}: last ${write(line, known.at(-1))}, between ${write(line, least)} and ${write(line, most)}`;
  });
  return `${title}, from ${writeX(xs[0])} to ${writeX(xs.at(-1))}. ${parts.join("; ")}. Arrow keys move between points.`;
}
