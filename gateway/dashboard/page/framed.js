// The framed format of samples (docs/answers.md): a table of keys and parts, followed by the samples.

const utf8 = new TextDecoder();

// samplesOf divides a body, or its first bytes, into samples: { length, parts: [{ name, bytes, length }] }. `bytes` is
// shorter than `length` if the body is truncated. It returns null if the table is truncated.
export function samplesOf(body) {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  if (body.length < 40) return null;
  if (view.getUint32(0) !== 0x4d4c5246 || view.getUint16(4, true) !== 1 || view.getUint16(6, true) !== 3) throw new Error("the response is not framed");
  const [n, names, parts, keyBytes, nameBytes, start] = [8, 12, 16, 20, 24, 28].map((at) => view.getUint32(at, true));
  const need = 40 + 4 * (3 * n + 3 * parts + names) + keyBytes + nameBytes;
  if (need > start) throw new Error("the table of the response has a wrong size");
  if (start > body.length) return null;
  let at = 40;
  const row = (count) => {
    const of = at;
    at += 4 * count;
    return (i) => view.getUint32(of + 4 * i, true);
  };
  const lengths = row(n);
  row(n); // lengths of keys; the manifest has the keys
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
