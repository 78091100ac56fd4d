import { fill, el, rate } from "./dom.js";
import { chart } from "./charts.js";

export function show(place) {
  const c = chart({
    title: "Bytes a second, by where they come from", value: rate, x: { time: true }, most: 1e6,
    lines: [{ label: "memory", color: "--memory" }, { label: "disk", color: "--disk" }, { label: "peer", color: "--peer" }, { label: "store", color: "--store" }],
  }, place.signal);
  fill(place.main, el("h1", null, "Waiting"), c.node);
  const now = Date.now() / 1000, xs = Array.from({ length: 300 }, (_, i) => now - 600 + 2 * i);
  c.draw([xs, xs.map((x) => 4e6 + 1e6 * Math.sin(x / 20)), xs.map(() => 1e6), xs.map((x, i) => (i > 100 && i < 130 ? null : 2e6)), xs.map((x) => 3e6 + 1e6 * Math.cos(x / 30))]);
}
