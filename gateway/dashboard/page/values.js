// Decoders of parts of samples: pure functions of the bytes, the part's name, and its field in the dataset's description
// (docs/api.md, Fields). look returns one of
//
//	{ kind: "image" | "audio" | "video", type, width, height }   for the browser to decode
//	{ kind: "picture", picture: { width, height, data } }        decoded pixels
//	{ kind: "text" | "json" | "value", text }
//	{ kind: "array" | "tokens", array }                          of numbers.js
//	{ kind: "rows", rows: [[name, look]] }                       named values
//	{ kind: "hex", bytes }
//
// and each may have a `note`, a sentence to show. `whole` is false for truncated bytes.

import { array, byLogical, numpyType, pixels, typeOf } from "./numbers.js";
import { isSVG, media } from "./media.js";
import { nested } from "./nested.js";

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// utf8 decodes a text, and returns null for invalid UTF-8. A truncated text may end within a character.
export function utf8(bytes, whole = true) {
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole }); } catch { return null; }
}

// visible escapes invisible characters and characters that change the direction of text. With lines, it does not escape
// tabs and line ends.
export function visible(text, lines = false) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    (c) => (lines && /[\n\t]/.test(c) ? c : lines && c === "\r" ? "" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

// hex dumps bytes in lines of 16, with their printable characters.
export function hex(bytes, most) {
  let out = "";
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const row = [...bytes.subarray(at, Math.min(at + 16, most))];
    out += `${at.toString(16).padStart(6, "0")}  ${row.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}\n`;
  }
  return out;
}

// pretty indents JSON without parsing its numbers, so that their spelling does not change.
export function pretty(text, most = 1 << 16) {
  let out = "", depth = 0, at = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 24))}`;
  while (at < text.length && out.length < most) {
    const c = text[at];
    if (c === '"') {
      const string = /"(?:[^"\\]|\\.)*"?/sy;
      string.lastIndex = at;
      const found = string.exec(text.slice(0, at + most))?.[0] ?? c;
      out += found;
      at += found.length;
      continue;
    }
    at++;
    if (c === "{" || c === "[") {
      const end = /\s*[}\]]/y;
      end.lastIndex = at;
      const empty = end.exec(text)?.[0];
      if (empty) { out += c + empty.trim(); at += empty.length; continue; }
      depth++;
      out += c + line();
    } else if (c === "}" || c === "]") { depth = Math.max(0, depth - 1); out += line() + c; }
    else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return at < text.length ? `${out.slice(0, most)}\n...` : out;
}

// look decodes a part. about has { name, field, whole, length, constants, format }.
export function look(bytes, about) {
  if (about.length === 0 || (bytes.length === 0 && about.whole)) return { kind: "value", text: about.field?.type === "utf8" ? '""' : /^(list|map)/.test(about.field?.type) ? "[]" : "(no bytes)" };
  try {
    return (about.field && byField(bytes, about)) ?? byContent(bytes, about);
  } catch { // the bytes do not match their description
    return { kind: "hex", bytes, note: about.field ? `The bytes do not match the dataset's description (${about.field.type ?? about.field.encoding}).` : "" };
  }
}

function byContent(bytes, { name, whole, field }) {
  const found = media(bytes);
  if (found?.kind === "other") return { kind: "hex", bytes, note: `This is ${found.name}, which browsers do not show.` };
  if (found) return whole ? found : { kind: "hex", bytes, note: found.width ? `The beginning of an image of ${found.width} x ${found.height} pixels.` : `The beginning of ${found.type}.` };
  if (bytes[0] === 0x93 && strict.decode(bytes.subarray(1, 6)) === "NUMPY") return npy(bytes);
  if (field?.encoding === "jpeg" || field?.encoding === "png" || /\.?(jpe?g|png|webp|gif)$/i.test(name)) return { kind: "hex", bytes, broken: true, note: "Not a readable image." };
  const suffix = /[^.]*$/.exec(name)[0].toLowerCase();
  if (["pt", "pth", "pkl", "pickle", "joblib"].includes(suffix)) return { kind: "hex", bytes, note: pickled };
  const text = utf8(bytes, whole);
  if (text === null) return { kind: "hex", bytes, note: ["txt", "text", "json", "cls"].includes(suffix) ? "Not UTF-8 text." : "" };
  if (suffix === "json") return { kind: "json", text };
  if (isSVG(text) && whole) return { kind: "image", type: "image/svg+xml", width: 1, height: 1, text };
  return bytes.filter((b) => b < 9 || (b > 13 && b < 32)).length > bytes.length / 8 ? { kind: "hex", bytes } : { kind: "text", text };
}

const pickled = "A Python pickle, which runs code when it is read: the page does not read it.";

function byField(bytes, about) {
  const { field, whole } = about, [kind, ...rest] = field.encoding.split(":");
  switch (kind) {
    case "raw": return raw(bytes, about);
    case "json": return textOr(bytes, "json", whole);
    case "decimal": return { kind: "value", text: className(utf8(bytes, whole), field) };
    case "csv": case "tsv": return record(bytes, about);
    case "pickle": return { kind: "hex", bytes, note: pickled };
    case "nested": return whole ? { kind: "json", text: JSON.stringify(nested(bytes, field), (_, v) => (typeof v === "bigint" ? JSON.rawJSON?.(String(v)) ?? String(v) : v)) } : null;
    case "mds": return mds(bytes, rest);
    case "litdata": return litdata(bytes, rest[0], rest[1]);
    case "numpy": {
      const type = numpyType(rest.join(":"));
      return type ? arrayOf(bytes, type.name, field.shape, type.big) : { kind: "hex", bytes, note: `Elements of NumPy's type ${rest.join(":")}.` };
    }
  }
  return null;
}

const arrayOf = (bytes, name, shape, big) => {
  const a = array(bytes, name, shape, big);
  return a && { kind: "array", array: a };
};

function textOr(bytes, kind, whole) {
  const text = utf8(bytes, whole);
  return text === null ? null : { kind, text };
}

function raw(bytes, about) {
  const { field, format, whole } = about;
  if (field.type === "utf8") return textOr(bytes, field.logical === "json" ? "json" : "text", whole);
  if (field.type === "binary" || !field.type) {
    const decimal = field.logical && byLogical(field.logical, new DataView(bytes.buffer, bytes.byteOffset, bytes.length));
    if (decimal !== undefined && decimal !== "" && field.logical) return { kind: "value", text: decimal };
    return (format === "tfrecord" && whole && example(bytes)) || byContent(bytes, about);
  }
  const list = /^list<(.*)>$/.exec(field.type);
  if (list) return list[1] === "binary" || list[1] === "utf8" ? null : named(arrayOf(bytes, list[1]), field);
  if (field.shape) {
    const found = arrayOf(bytes, field.type, field.shape);
    return found && format === "tokens" ? { ...found, kind: "tokens" } : found;
  }
  const type = typeOf(field.type), v = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (!type || bytes.length !== type.size) return null;
  const logical = field.logical && byLogical(field.logical, v);
  const value = logical ?? type.read(v, 0, true);
  return { kind: "value", text: className(value, field) };
}

const className = (value, field) => (Object.hasOwn(field.classes ?? [], String(value)) ? `${value} (${field.classes[value]})` : Object.is(value, -0) ? "-0" : String(value));

function named(found, field) {
  if (found && field.classes) found.array.first = found.array.first.map((x) => className(x, field));
  return found;
}

// npy parses the header of an .npy file without evaluating it.
function npy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), old = bytes[6] === 1;
  const begin = old ? 10 : 12, end = begin + (old ? view.getUint16(8, true) : view.getUint32(8, true));
  const head = new TextDecoder().decode(bytes.subarray(begin, Math.min(end, 4096)));
  const descr = /'descr': '([^']*)'/.exec(head)?.[1] ?? "", shape = (/'shape': \(([^)]*)\)/.exec(head)?.[1] ?? "").split(",").map((s) => s.trim()).filter(Boolean).map(Number);
  const type = numpyType(descr), note = `An .npy file: ${descr || "?"}, shape (${shape.join(", ")}).`;
  const found = type && /'fortran_order': False/.test(head) && end <= bytes.length && arrayOf(bytes.subarray(end), type.name, shape, type.big);
  return found ? { ...found, note: "" } : { kind: "hex", bytes, note };
}

// record parses a record of comma-separated values. The header, if any, names its fields.
function record(bytes, { constants, whole }) {
  const text = utf8(bytes, whole), delimiter = constants?.delimiter ?? ",";
  if (text === null) return null;
  const heads = constants?.header ? cells(constants.header, delimiter) : [];
  return { kind: "rows", rows: cells(text, delimiter).slice(0, 1024).map((c, i) => [heads[i] ?? String(i), { kind: "text", text: c }]) };
}

function cells(line, delimiter) {
  const out = [];
  for (let at = 0, end = line.replace(/\r?\n$/, ""); at <= end.length;) {
    if (end[at] === '"') {
      let close = at + 1;
      while (close < end.length && (end[close] !== '"' || end[close + 1] === '"')) close += end[close] === '"' ? 2 : 1;
      out.push(end.slice(at + 1, close).replaceAll('""', '"'));
      at = close + 1 + delimiter.length;
    } else {
      const next = end.indexOf(delimiter, at);
      out.push(end.slice(at, next < 0 ? undefined : next));
      at = next < 0 ? end.length + 1 : next + delimiter.length;
    }
  }
  return out;
}

// bare decodes pixels that follow their width, height and mode, like MosaicML Streaming and LitData write them.
function bare(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [width, height, letters] = [0, 4, 8].map((at) => view.getUint32(at, true));
  const mode = utf8(bytes.subarray(12, 12 + Math.min(letters, 16))), bands = { L: 1, RGB: 3, RGBA: 4 }[mode];
  const found = bands && width * height <= 1 << 24 && pixels(bytes.subarray(12 + letters), width, height, bands);
  return found ? { kind: "picture", picture: found, note: `Pixels, ${mode}, ${width} x ${height}.` } : { kind: "hex", bytes, note: `Pixels, ${mode}, ${width} x ${height}.` };
}

const mdsTypes = { 8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32", 64: "uint64", 65: "int64", 66: "float64" };

function mds(bytes, [name, type, axes]) {
  if (name.startsWith("str_")) return textOr(bytes, "value", true);
  if (name === "pil") return bare(bytes);
  if (name !== "ndarray") return null;
  let at = 0, shape = axes ? axes.split(",").map(Number) : null;
  type ||= mdsTypes[bytes[at++]];
  if (!shape) {
    const count = bytes[at] >> 2, width = 1 << (bytes[at++] & 3);
    shape = [];
    for (let i = 0; i < count; i++, at += width) shape.push([...bytes.subarray(at, at + width)].reduceRight((sum, b) => sum * 256 + b, 0));
  }
  return arrayOf(bytes.slice(at), type, shape);
}

const litdataTypes = {
  numpy: ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "", "", "bool"],
  tensor: ["float32", "float32", "float64", "float64", "", "", "", "", "float16", "float16", "", "uint8", "int8", "int16", "int16", "int32", "int32", "int64", "int64", "bool"],
};

function litdata(bytes, name, number) {
  const kind = name.replace("no_header_", "");
  if (name === "pil") return bare(bytes);
  if (!Object.hasOwn(litdataTypes, kind)) return null;
  if (kind !== name) return arrayOf(bytes, litdataTypes[kind][number]);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), axes = view.getUint32(4, true), shape = [];
  for (let i = 0; i < axes; i++) shape.push(view.getUint32(8 + 4 * i, true));
  return arrayOf(bytes.subarray(8 + 4 * axes), litdataTypes[kind][view.getUint32(0, true)], shape);
}

// fields parses a protocol buffer message: [number, wire type, bytes or integer] of each field. It throws for other bytes.
function fields(bytes) {
  const out = [];
  let at = 0;
  const varint = () => {
    let n = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= bytes.length) throw new Error("truncated");
      n |= BigInt(bytes[at] & 127) << shift;
      if (bytes[at++] < 128) return n;
    }
    throw new Error("invalid varint");
  };
  while (at < bytes.length && out.length < 1 << 16) {
    const tag = Number(varint()), wire = tag & 7;
    const size = wire === 2 ? Number(varint()) : wire === 5 ? 4 : wire === 1 ? 8 : 0;
    if (![0, 1, 2, 5].includes(wire) || tag < 8 || at + size > bytes.length) throw new Error("invalid message");
    out.push([tag >> 3, wire, wire === 0 ? varint() : bytes.subarray(at, at += size)]);
  }
  return out;
}

// example parses a tf.train.Example: the names and values of its features. It returns null for other bytes.
function example(bytes) {
  try {
    const [[one, wire, features], more] = fields(bytes);
    if (one !== 1 || wire !== 2 || more) return null;
    return { kind: "rows", rows: fields(features).slice(0, 1024).map(([, , entry]) => {
      const both = Object.fromEntries(fields(entry).map(([n, , b]) => [n, b]));
      const [[kind, , list]] = fields(both[2] ?? new Uint8Array([10, 0]));
      return [utf8(both[1] ?? new Uint8Array()) ?? "?", feature(kind, list)];
    }) };
  } catch { return null; }
}

function feature(kind, list) {
  const values = fields(list);
  if (kind === 1) {
    if (values.length !== 1) return { kind: "value", text: `${values.length} texts or bytes: ${values.slice(0, 16).map(([, , b]) => utf8(b) ?? `${b.length} bytes`).join(", ")}` };
    return { ...byContent(values[0][2], { name: "", whole: true }), bytes: values[0][2] };
  }
  if (kind === 2) {
    const floats = values.flatMap(([, , b]) => array(b, "float").first);
    return { kind: "value", text: shortList(floats) };
  }
  const whole = values.flatMap(([, w, b]) => (w === 0 ? [b] : fields(packed(b)).map(([, , n]) => n)));
  return { kind: "value", text: shortList(whole.map((n) => BigInt.asIntN(64, n))) };
}

const shortList = (list) => (list.length > 64 ? `${list.length} numbers: ${list.slice(0, 64).join(", ")} ...` : list.join(", "));

// packed inserts a tag before each number of a packed list, so that fields can parse it.
function packed(bytes) {
  const out = [8];
  bytes.forEach((b, i) => { out.push(b); if (b < 128 && i < bytes.length - 1) out.push(8); });
  return new Uint8Array(bytes.length ? out : []);
}
