// Media types by their first bytes: images with width and height, audio, video.

export const mostPixels = 1 << 26; // browsers use 4 bytes per pixel: 256 MiB

const latin = (b, from, to) => String.fromCharCode(...b.subarray(from, to));

// media returns { kind, type, width, height }, or { kind: "other", name } for a type that browsers do not show, or null.
export function media(b) {
  const view = new DataView(b.buffer, b.byteOffset, b.byteLength);
  const begin = latin(b, 0, 12), four = begin.slice(0, 4), eight = begin.slice(8, 12);
  const image = (type, width, height) => ({ kind: "image", type, width, height });
  try {
    if (four === "\x89PNG") return latin(b, 12, 16) !== "IHDR" ? image("image/png", 0, 0) : image("image/png", view.getUint32(16), view.getUint32(20));
    if (begin.startsWith("\xff\xd8\xff")) return image("image/jpeg", ...jpeg(b, view));
    if (four === "GIF8") return image("image/gif", ...gif(b, view));
    if (four === "RIFF" && eight === "WEBP") return image("image/webp", ...webp(b, view));
    if (begin.startsWith("BM") && view.getUint32(6, true) === 0 && b.length > 26) return image("image/bmp", Math.abs(view.getInt32(18, true)), Math.abs(view.getInt32(22, true)));
  } catch { // the header is truncated
    return image("image/picture", 0, 0);
  }
  if (four === "RIFF" && eight === "WAVE") return { kind: "audio", type: "audio/wav" };
  if (four === "fLaC") return { kind: "audio", type: "audio/flac" };
  if (four === "OggS") return { kind: "audio", type: "audio/ogg" };
  if (begin.startsWith("ID3") || (b.length > 64 && b[0] === 0xff && (b[1] & 0xe6) === 0xe2 && b[2] >> 4 !== 15)) return { kind: "audio", type: "audio/mpeg" };
  if (begin.slice(4, 8) === "ftyp") return /avif|avis/.test(latin(b, 8, 32)) ? image("image/avif", ...avif(b, view)) : { kind: "video", type: "video/mp4" };
  if (four === "\x1aE\xdf\xa3") return { kind: "video", type: "video/webm" };
  const name = others.find(([mark]) => begin.startsWith(mark))?.[1];
  return name ? { kind: "other", name } : null;
}

const others = [
  ["II*\0", "a TIFF image"], ["MM\0*", "a TIFF image"], ["\xff\x0a", "a JPEG XL image"], ["\0\0\0\x0cJXL ", "a JPEG XL image"], ["\0\0\0\x0cjP  ", "a JPEG 2000 image"],
  ["\x1f\x8b", "gzip data"], ["(\xb5/\xfd", "zstd data"], ["\xfd7zXZ", "xz data"], ["PK\x03\x04", "a zip archive"], ["%PDF", "a PDF document"],
];

function jpeg(b, view) {
  for (let at = 2; at + 9 < b.length;) {
    const mark = b[at + 1];
    if (b[at] !== 0xff || mark < 2 || mark === 0xff || (mark >= 0xd0 && mark <= 0xd9)) { at++; continue; } // like decoders do
    if (mark >= 0xc0 && mark <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(mark)) return [view.getUint16(at + 7), view.getUint16(at + 5)];
    at += 2 + view.getUint16(at + 2);
  }
  return [0, 0];
}

// gif returns the larger of the logical screen and the first frame.
function gif(b, view) {
  const u16 = (i) => view.getUint16(i, true);
  let at = 13 + (b[10] & 128 ? 3 << (b[10] & 7) + 1 : 0);
  while (b[at] === 0x21) {
    for (at += 2; b[at]; at += b[at] + 1);
    at++;
  }
  return b[at] === 0x2c ? [Math.max(u16(6), u16(at + 1) + u16(at + 5)), Math.max(u16(8), u16(at + 3) + u16(at + 7))] : [0, 0];
}

function webp(b, view) {
  const three = (at) => b[at] | b[at + 1] << 8 | b[at + 2] << 16;
  const kind = latin(b, 12, 16);
  if (kind === "VP8X") return [1 + three(24), 1 + three(27)];
  if (kind === "VP8L") return [1 + (view.getUint32(21, true) & 0x3fff), 1 + (view.getUint32(21, true) >> 14 & 0x3fff)];
  return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
}

function avif(b, view) {
  let most = [0, 0]; // size of the largest image or video in the file
  for (let at = 4; at + 16 <= b.length; at++) {
    const box = view.getUint32(at), film = box === 0x746b6864; // "tkhd"; the other one is "ispe"
    if (!film && box !== 0x69737065) continue;
    const found = [0, 4].map((i) => (film ? view.getUint16(at + (b[at + 4] ? 92 : 80) + i) : view.getUint32(at + 8 + i)));
    if (found[0] * found[1] > most[0] * most[1]) most = found;
  }
  return most;
}

// isSVG reports whether a text is an SVG image that is safe to show. In an <img> it runs no script and loads nothing. SVG
// that repeats, filters, clips or animates, or embeds other images, can keep a browser busy for hours: it is shown as text.
export const isSVG = (text) => /^\s*(<\?xml[^>]*>\s*|<!--[^>]*-->\s*|<!DOCTYPE svg[^>[]*>\s*)*<svg[\s>]/.test(text.slice(0, 4096)) &&
  !/<!ENTITY|&#|\\|data:|[<:](use|fe[A-Z]\w*|pattern|mask|marker|clipPath|animate\w*|set|foreignObject)\b|filter|animation|dasharray/i.test(text);
