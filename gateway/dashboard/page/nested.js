// The nested encoding of lists, maps and structs (docs/spec/rows.md), decoded into lists and objects without a prototype.

import { typeOf } from "./numbers.js";

const text = new TextDecoder();
const most = 256; // elements decoded per list

export function nested(bytes, field) {
  const reader = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length), at: 0 };
  return list(reader, field.children[0], bytes.length, field.type?.startsWith("map"));
}

const isList = (f) => f.encoding === "nested" && f.type !== "struct";
const isStruct = (f) => f.encoding === "nested" && f.type === "struct";
const u32 = (r) => { r.at += 4; return r.view.getUint32(r.at - 4, true); };

function fixed(f) {
  return f.encoding === "raw" && typeOf(f.type)?.size ? typeOf(f.type) : null;
}

// value decodes a value of a given length.
function value(r, f, length) {
  const end = r.at + length;
  if (end > r.bytes.length) throw new Error("truncated");
  let out;
  if (isList(f)) out = list(r, f.children[0], length);
  else if (fixed(f)) out = fixed(f).read(r.view, r.at, true);
  else if (/^list<(.*)>$/.test(f.type)) out = fixedList(r, typeOf(/^list<(.*)>$/.exec(f.type)[1]), length);
  else out = f.type === "utf8" ? text.decode(r.bytes.subarray(r.at, end)) : `(${length} bytes)`;
  r.at = end;
  return out;
}

function fixedList(r, type, length) {
  const out = [];
  for (let at = 0; type && at + type.size <= length && out.length < most; at += type.size) out.push(type.read(r.view, r.at + at, true));
  return out;
}

function list(r, element, length) {
  if (fixed(element)) return fixedList(r, fixed(element), length);
  const count = u32(r), bits = r.at, out = [];
  r.at += Math.ceil(count / 8);
  for (let i = 0; i < count; i++) {
    if (i === most) { out.push(`... ${count} in all`); break; }
    if (r.bytes[bits + (i >> 3)] >> (i & 7) & 1) out.push(null);
    else out.push(isStruct(element) ? row(r, element.children) : value(r, element, u32(r)));
  }
  return out;
}

// row decodes the fields of a struct: null bits, lengths, values.
function row(r, children) {
  const nodes = [], walk = (fs) => { for (const f of fs) { nodes.push(f); if (isStruct(f)) walk(f.children); } };
  walk(children);
  const nullable = nodes.filter((f) => f.nullable), bits = r.at, missing = new Set();
  r.at += Math.max(1, Math.ceil(nullable.length / 8));
  nullable.forEach((f, i) => { if (r.bytes[bits + (i >> 3)] >> (i & 7) & 1) missing.add(f); });
  const drop = (f) => { missing.add(f); if (isStruct(f)) f.children.forEach(drop); };
  [...missing].forEach(drop);
  const lengths = new Map();
  for (const f of nodes) if (!missing.has(f) && !isStruct(f) && !fixed(f)) lengths.set(f, u32(r));
  const read = (fs) => {
    const out = Object.create(null);
    for (const f of fs) out[f.name] = missing.has(f) ? null : isStruct(f) ? read(f.children) : value(r, f, lengths.get(f) ?? fixed(f).size);
    return out;
  };
  return read(children);
}
