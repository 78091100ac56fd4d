// Decoders of numbers and other values of a fixed size, by their type names in Arrow and NumPy.

const units = { s: 1n, ms: 1000n, us: 1000000n, ns: 1000000000n };

export function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, e = bits >> 10 & 31, f = bits & 1023;
  if (e === 31) return f ? NaN : sign * Infinity;
  return sign * (e ? 2 ** (e - 15) * (1 + f / 1024) : 2 ** -14 * (f / 1024));
}

const plain = (size, read) => ({ size, read, number: true });
const single = (x) => (Number.isFinite(x) ? Number(x.toPrecision(8)) : x); // a 32-bit 0.1 shows as 0.1
const types = {
  bool: { size: 1, read: (v, at) => v.getUint8(at) !== 0 },
  int8: plain(1, (v, at) => v.getInt8(at)), uint8: plain(1, (v, at) => v.getUint8(at)),
  int16: plain(2, (v, at, le) => v.getInt16(at, le)), uint16: plain(2, (v, at, le) => v.getUint16(at, le)),
  int32: plain(4, (v, at, le) => v.getInt32(at, le)), uint32: plain(4, (v, at, le) => v.getUint32(at, le)),
  int64: plain(8, (v, at, le) => v.getBigInt64(at, le)), uint64: plain(8, (v, at, le) => v.getBigUint64(at, le)),
  float16: plain(2, (v, at, le) => single(half(v.getUint16(at, le)))), float: plain(4, (v, at, le) => single(v.getFloat32(at, le))),
  double: plain(8, (v, at, le) => v.getFloat64(at, le)),
};
types.float32 = types.float;
types.float64 = types.double;

// typeOf returns { size, read(view, at, littleEndian), number } of an Arrow type, or null for a type without a fixed size.
export function typeOf(name = "") {
  if (Object.hasOwn(types, name)) return types[name];
  const [, kind, inner = ""] = /^(\w+?)(?:\[(.*)\]|\((.*)\))?$/.exec(name.replace("(", "[").replace(")", "]")) ?? [];
  const unit = inner.split(",")[0];
  const whole = (size) => (v, at) => (size === 4 ? BigInt(v.getInt32(at, true)) : v.getBigInt64(at, true));
  switch (kind) {
    case "date32": return { size: 4, read: (v, at) => date(whole(4)(v, at) * 86400n, 1n, 10) };
    case "date64": return { size: 8, read: (v, at) => date(whole(8)(v, at), 1000n, 10) };
    case "timestamp": return { size: 8, read: (v, at) => `${date(whole(8)(v, at), units[unit] ?? 1n)}${inner.includes("tz=") ? " UTC" : ""}` };
    case "time32": return { size: 4, read: (v, at) => date(whole(4)(v, at), units[unit] ?? 1n).slice(11) };
    case "time64": return { size: 8, read: (v, at) => date(whole(8)(v, at), units[unit] ?? 1n).slice(11) };
    case "duration": return { size: 8, read: (v, at) => `${whole(8)(v, at)} ${unit}` };
    case "fixed_size_binary": return { size: Number(unit), read: (v, at) => hexOf(v, at, Number(unit)) };
  }
  const bits = /^decimal(32|64|128|256)$/.exec(kind ?? "");
  if (bits) return { size: bits[1] / 8, read: (v, at) => decimal(integer(v, at, bits[1] / 8, true), Number(inner.split(",")[1])) };
  return null;
}

// byLogical decodes big-endian decimals, UUIDs and INT96 by their logical type. It returns undefined for other types.
export function byLogical(logical, v) {
  const d = /^decimal\d+\((\d+), *(-?\d+)\)$/.exec(logical);
  if (d) return decimal(integer(v, 0, v.byteLength, false), Number(d[2]));
  if (logical === "uuid" && v.byteLength === 16) return hexOf(v, 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  if (logical === "timestamp[ns]" && v.byteLength === 12) return date((BigInt(v.getUint32(8, true)) - 2440588n) * 86400n * units.ns + v.getBigInt64(0, true), units.ns);
  return undefined;
}

function hexOf(v, at, n) {
  let out = "";
  for (let i = 0; i < n; i++) out += v.getUint8(at + i).toString(16).padStart(2, "0");
  return out;
}

function integer(v, at, size, little) {
  let n = 0n;
  for (let i = 0; i < size; i++) n = n << 8n | BigInt(v.getUint8(at + (little ? size - 1 - i : i)));
  return BigInt.asIntN(8 * size, n);
}

function decimal(n, scale) {
  if (!(scale > 0)) return `${n}${scale < 0 ? `e${-scale}` : ""}`;
  const digits = (n < 0n ? -n : n).toString().padStart(scale + 1, "0");
  return `${n < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function date(n, unit, length = 99) {
  let seconds = n / unit, rest = n % unit;
  if (rest < 0n) { seconds--; rest += unit; }
  if (seconds > 8640000000000n || seconds < -8640000000000n) return `${n} (1/${unit} s since 1970)`;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, -5).replace("T", " ");
  const fraction = rest ? `.${rest.toString().padStart(unit.toString().length - 1, "0").replace(/0+$/, "")}` : "";
  return (whole + fraction).slice(0, length);
}

// numpyType converts a NumPy type such as "<f4" or ">u2". It returns null for types other than plain numbers.
export function numpyType(text) {
  const [, order, kind, bytes] = /^([<>|=]?)([biuf?])(\d*)$/.exec(text) ?? [];
  if (!kind) return null;
  const name = kind === "b" || kind === "?" ? "bool" : kind === "f" ? { 2: "float16", 4: "float32", 8: "float64" }[bytes] : `${kind === "u" ? "u" : ""}int${8 * bytes}`;
  return Object.hasOwn(types, name ?? "") ? { name, big: order === ">" } : null;
}

const mostCounted = 1 << 22; // elements searched for the minimum and the maximum

// array describes elements of one type: { dtype, shape, first, least, greatest, picture }.
export function array(bytes, name, shape, big = false) {
  const type = typeOf(name), v = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!type?.size) return null;
  const have = Math.floor(bytes.length / type.size);
  shape = shape?.length || shape === undefined || have !== 1 ? shape ?? [have] : [];
  const wanted = shape.reduce((a, b) => a * b, 1), n = Math.min(have, wanted, mostCounted);
  const out = { dtype: name, shape, first: [], wanted, have, least: undefined, greatest: undefined, nans: 0, picture: null };
  for (let i = 0; i < n; i++) {
    const x = type.read(v, i * type.size, !big);
    if (i < 256) out.first.push(x);
    if (!type.number) continue;
    if (Number.isNaN(x)) { out.nans++; continue; }
    if (out.least === undefined || x < out.least) out.least = x;
    if (out.greatest === undefined || x > out.greatest) out.greatest = x;
  }
  if (name === "uint8" && have >= wanted) out.picture = picture(bytes, shape);
  return out;
}

// picture converts an array of bytes into an image if its shape fits: height x width, with 1, 3 or 4 bands first or last.
function picture(bytes, shape) {
  const bands = (n) => n === 1 || n === 3 || n === 4;
  let [h, w, c, planes] = [shape[0], shape[1], 1, false];
  if (shape.length === 3 && bands(shape[2])) c = shape[2];
  else if (shape.length === 3 && bands(shape[0])) [c, h, w, planes] = [...shape, true];
  else if (shape.length !== 2) return null;
  return w < 4 || h < 4 || w * h > 1 << 22 ? null : pixels(bytes, w, h, c, planes);
}

// pixels converts bands to RGBA.
export function pixels(bytes, width, height, bands, planes = false) {
  const n = width * height;
  if (bytes.length < n * bands) return null;
  const data = new Uint8ClampedArray(4 * n);
  for (let i = 0; i < n; i++) {
    for (let b = 0; b < 4; b++) {
      const from = bands < 3 ? 0 : b;
      data[4 * i + b] = b === 3 && bands < 4 ? 255 : bytes[planes ? from * n + i : i * bands + from];
    }
  }
  return { width, height, data };
}
