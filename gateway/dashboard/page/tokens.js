// Decodes tokens with a Hugging Face tokenizer.json. The file stays in this tab.

let texts = null; // the text or bytes of each token
let name = "";

export const tokenizerName = () => name;

// readTokenizer loads a file, and returns its number of tokens.
export async function readTokenizer(file) {
  if (file.size > 64 << 20) throw new Error("a tokenizer.json may have at most 64 MiB");
  const whole = JSON.parse(await file.text()), model = whole.model ?? {};
  const vocabulary = Array.isArray(model.vocab) ? model.vocab.map(([word], i) => [word, i]) : Object.entries(model.vocab ?? {});
  if (vocabulary.length === 0) throw new Error("not a tokenizer.json: model.vocab is missing");
  const inside = JSON.stringify([whole.decoder ?? null, whole.pre_tokenizer ?? null]);
  const read = inside.includes("ByteLevel") ? byteLevel : model.type === "WordPiece" ? wordPiece : pieces;
  const found = new Map();
  for (const [word, id] of vocabulary) found.set(Number(id), read(String(word)));
  for (const t of Array.isArray(whole.added_tokens) ? whole.added_tokens : []) found.set(Number(t.id), new TextEncoder().encode(String(t.content)));
  texts = found;
  name = file.name;
  return found.size;
}

// textOf decodes tokens, and returns null without a tokenizer.
export function textOf(ids) {
  if (!texts) return null;
  const all = ids.map((id) => texts.get(Number(id)) ?? new TextEncoder().encode(`<${id}?>`));
  const out = new Uint8Array(all.reduce((sum, b) => sum + b.length, 0));
  let at = 0;
  for (const b of all) { out.set(b, at); at += b.length; }
  return new TextDecoder().decode(out);
}

// GPT-2 writes each byte as one printable character.
const bytesOf = new Map();
for (let b = 0, next = 256; b < 256; b++) {
  const printable = (b > 32 && b < 127) || (b > 160 && b !== 173);
  bytesOf.set(String.fromCodePoint(printable ? b : next++), b);
}
function byteLevel(word) {
  const bytes = [...word].map((c) => bytesOf.get(c));
  return bytes.includes(undefined) ? new TextEncoder().encode(word) : new Uint8Array(bytes);
}

const wordPiece = (word) => new TextEncoder().encode(word.startsWith("##") ? word.slice(2) : ` ${word}`);

function pieces(word) {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(word);
  return byte ? new Uint8Array([parseInt(byte[1], 16)]) : new TextEncoder().encode(word.replaceAll("\u2581", " "));
}
