// The framed form of samples (docs/answers.md): a table of keys and parts, and the samples after it.

const utf8 = new TextDecoder();

// samplesOf cuts a body, or its first bytes, into samples: { length, parts: [{ name, bytes, length }] }, where
// `bytes` is shorter than `length` if the body was cut. It returns null where the table is cut itself.
export function samplesOf(body) {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  if (body.length < 40) return null;
  if (view.getUint32(0) !== 0x4d4c5246 || view.getUint16(4, true) !== 1 || view.getUint16(6, true) !== 3) throw new Error("the answer is not framed");
  const [n, names, parts, keyBytes, nameBytes, start] = [8, 12, 16, 20, 24, 28].map((at) => view.getUint32(at, true));
  const need = 40 + 4 * (3 * n + 3 * parts + names) + keyBytes + nameBytes;
  if (need > start) throw new Error("the table of the answer does not fit");
  if (start > body.length) return null;
  let at = 40;
  const row = (count) => {
    const of = at;
    at += 4 * count;
    return (i) => view.getUint32(of + 4 * i, true);
  };
  const lengths = row(n);
  row(n); // lengths of keys, which the manifest has
  const counts = row(n);
  const nameOf = row(parts), begins = row(parts), sizes = row(parts), nameLengths = row(names);
  let text = at + keyBytes;
  const words = [];
  for (let i = 0; i < names; i++) words.push(utf8.decode(body.subarray(text, text += nameLengths(i))));
  const out = [];
  for (let i = 0, p = 0, from = start; i < n; i++) {
    const sample = { length: lengths(i), parts: [] };
    for (let end = Math.min(parts, p + counts(i)); p < end; p++) {
      const begin = from + begins(p), length = sizes(p);
      sample.parts.push({ name: words[nameOf(p)] ?? "", length, bytes: body.subarray(Math.min(begin, body.length), Math.min(begin + length, from + lengths(i))) });
    }
    out.push(sample);
    from += lengths(i);
  }
  return out;
}
