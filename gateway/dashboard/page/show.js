// Elements for the values that values.js has decoded. Images, audio and video are blobs of this tab; Blobs revokes their URLs.

import { count, el, short } from "./dom.js";
import { mostPixels } from "./media.js";
import { hex, pretty, visible } from "./values.js";
import { textOf } from "./tokens.js";

export class Blobs {
  #urls = [];
  constructor(signal) { signal.addEventListener("abort", () => this.clear(), { once: true }); }
  url(bytes, type) {
    const url = URL.createObjectURL(new Blob([bytes], { type }));
    this.#urls.push(url);
    return url;
  }
  clear() {
    for (const url of this.#urls) URL.revokeObjectURL(url);
    this.#urls = [];
  }
}

// isSeen reports whether a value is an image, audio or video.
export const isSeen = (found) => ["image", "audio", "video", "picture"].includes(found.kind) || (found.kind === "array" && found.array.picture);

// line returns a value as a short text.
export function line(found) {
  switch (found.kind) {
    case "image": return found.width > 1 ? `${found.type.slice(6)}, ${found.width} x ${found.height} pixels` : found.type.slice(6);
    case "audio": case "video": return found.type;
    case "picture": return `${found.picture.width} x ${found.picture.height} pixels`;
    case "array": return `${found.array.dtype} [${found.array.shape.join(" x ")}]: ${found.array.first.slice(0, 4).join(", ")}${found.array.wanted > 4 ? " ..." : ""}`;
    case "tokens": return visible((textOf(found.array.first.slice(0, 96)) ?? found.array.first.slice(0, 48).join(" ")));
    case "rows": return found.rows.slice(0, 8).map(([name, v]) => `${visible(name.slice(0, 60))}: ${line(v)}`).join("; ");
    case "hex": return found.broken ? found.note : [...found.bytes.subarray(0, 16)].map((b) => b.toString(16).padStart(2, "0")).join(" ") + (found.bytes.length > 16 ? " ..." : "");
    default: return visible(found.text.slice(0, 600).replace(/\r?\n$/, ""));
  }
}

// whole shows a value at full size. `most` bounds the characters of texts, and label names the value for screen readers.
export function whole(found, bytes, blobs, label, most = 1 << 16) {
  const note = found.note && el("p", { class: found.broken ? "broken" : "small" }, found.note);
  const own = found.bytes ?? bytes;
  switch (found.kind) {
    case "image": return el("div", null, image(found, own, blobs, label), note);
    case "audio": return el("div", null, player("audio", found, own, blobs, label), note);
    case "video": return el("div", null, player("video", found, own, blobs, label), note);
    case "picture": return el("div", null, canvas(found.picture, label), note);
    case "array": return el("div", null, found.array.picture && canvas(found.array.picture, label), arrayFacts(found.array), note);
    case "tokens": return tokens(found.array);
    case "rows": return el("dl", { class: "values" }, found.rows.map(([name, v]) => el("div", null, el("dt", null, visible(name.slice(0, 200))), el("dd", null, whole(v, v.bytes ?? bytes, blobs, `${label}, ${name.slice(0, 60)}`, most)))));
    case "hex": return el("div", null, note, el("pre", { class: "hex", tabindex: 0 }, hex(found.bytes, Math.min(most, 4096))), found.bytes.length > Math.min(most, 4096) && el("p", { class: "small" }, `${count(found.bytes.length)} bytes in total`));
    case "json": return block(pretty(found.text, most), most);
  }
  return block(found.text, most);
}

function block(text, most) {
  return el("div", null, el("pre", { class: "text", tabindex: 0 }, visible(text.slice(0, most), true)), text.length > most && el("p", { class: "small" }, `The first ${count(most)} of ${count(text.length)} characters.`));
}

function image(found, bytes, blobs, label) {
  const pixels = found.width * found.height, broken = el("p", { class: "broken" }, `Not a readable ${found.type.slice(6).replace("+xml", "")}.`);
  if (pixels > mostPixels) return el("p", { class: "broken" }, `An image of ${count(found.width)} x ${count(found.height)} pixels: too large to show.`);
  if (!pixels) return broken;
  const box = el("div", { class: "shown" });
  box.append(el("img", { alt: label, src: blobs.url(bytes, found.type), decoding: "async", onerror: () => box.replaceChildren(broken) }));
  return box;
}

function player(tag, found, bytes, blobs, label) {
  const box = el("div", { class: "shown" });
  box.append(el(tag, {
    controls: true, preload: "metadata", "aria-label": label, src: blobs.url(bytes, found.type),
    onerror: () => box.replaceChildren(el("p", { class: "broken" }, `Not a readable ${found.type}.`)),
  }));
  return box;
}

function canvas({ width, height, data }, label) {
  const node = el("canvas", { width, height, role: "img", "aria-label": label, class: width < 128 ? "coarse" : null });
  node.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
  return el("div", { class: "shown" }, node);
}

const number = (x) => (typeof x === "number" && Number.isFinite(x) && !Number.isInteger(x) ? short(x) : String(x));

function arrayFacts(a) {
  return el("div", null,
    el("p", null, `${a.dtype}, shape (${a.shape.join(", ")})${a.least === undefined ? "" : `, from ${number(a.least)} to ${number(a.greatest)}`}${a.nans ? `, ${count(a.nans)} NaN` : ""}`),
    a.have < a.wanted && el("p", { class: "small" }, `${count(a.have)} of ${count(a.wanted)} elements are loaded.`),
    el("pre", { class: "text", tabindex: 0 }, a.first.map(String).join(", ") + (a.wanted > a.first.length ? " ..." : "")));
}

function tokens(a) {
  const text = textOf(a.first);
  return el("div", null, el("p", null, `${count(a.wanted)} tokens of ${a.dtype}${a.wanted > a.first.length ? `, the first ${a.first.length} shown` : ""}`),
    text !== null && el("pre", { class: "text", tabindex: 0 }, visible(text, true)), el("pre", { class: "text", tabindex: 0 }, a.first.join(" ")));
}
