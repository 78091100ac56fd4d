// Reads an epoch from Millrace gateways with Node 18's own fetch, and prints a line for each sample.
const gateways = process.env.MILLRACE_URL.split(" ");

const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

function crc32c(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

function fail(text) {
  console.error(text);
  process.exit(1);
}

// The headers and the body of a batch: retried, resumed, checked. The gateway that answers is moved to the front.
async function get(path, deadline = 120_000) {
  let chunks = [], have = 0, size = 0, etag = "";
  const end = Date.now() + deadline;
  for (let attempt = 1; ; attempt++) {
    let pause = Math.min(100 * 2 ** attempt, 5000);
    try {
      const headers = { "Accept-Encoding": "identity" };
      if (have > 0) Object.assign(headers, { Range: `bytes=${have}-`, "If-Range": etag });
      const answer = await fetch(gateways[0] + path, { headers, redirect: "error", signal: AbortSignal.timeout(60_000) });
      if (answer.status === 200) { // the whole of it, even for a range
        (chunks = []), (have = 0), (size = Number(answer.headers.get("Content-Length"))), (etag = answer.headers.get("ETag"));
      } else if ([408, 429, 500, 503, 504].includes(answer.status) || answer.headers.has("Retry-After")) {
        pause = Number(answer.headers.get("Retry-After")) * 1000 || pause;
        throw new Error(`status ${answer.status}`);
      } else if (answer.status !== 206 || !answer.headers.get("Content-Range")?.startsWith(`bytes ${have}-`)) {
        fail(`${path}: status ${answer.status}: ${await answer.text()}`);
      }
      for await (const chunk of answer.body) have += chunks[chunks.push(chunk) - 1].length;
      if (have < size) throw new Error(`${have} of ${size} bytes`);
      const body = Buffer.concat(chunks);
      if (crc32c(body) === answer.headers.get("Millrace-Crc32c")) return { headers: answer.headers, body };
      (chunks = []), (have = 0); // the damage could be anywhere
      throw new Error("wrong CRC-32C");
    } catch (e) {
      if (Date.now() > end) fail(`${gateways[0]}${path}: ${e.message}, given up after ${deadline / 1000} s`);
      gateways.push(gateways.shift());
      if (attempt % gateways.length === 0) await new Promise((wake) => setTimeout(wake, pause)); // all of them were asked
    }
  }
}

// The samples of a framed body: its header has 40 bytes, and lengths follow.
function* samples(body) {
  let at = body.readUInt32LE(28);
  if (body.toString("latin1", 0, 4) !== "MLRF" || at + Number(body.readBigUInt64LE(32)) !== body.length) fail("this is not the framed form");
  for (let i = 0; i < body.readUInt32LE(8); i++) {
    const length = body.readUInt32LE(40 + 4 * i);
    yield body.subarray(at, at + length);
    at += length;
  }
}

const { MILLRACE_DATASET: dataset, MILLRACE_EPOCH: epoch, MILLRACE_PLAN: plan } = process.env;
let path = `/v1/datasets/${dataset}/epochs/${epoch}/batches/0?format=framed${plan ? "&" + plan : ""}`;
while (path) {
  const { headers, body } = await get(path);
  let i = 0;
  for (const sample of samples(body)) console.log(headers.get("Millrace-Batch"), i++, sample.length, crc32c(sample));
  path = headers.get("Link")?.match(/^<(.*)>; rel="next"$/)?.[1]; // it pins the generation
}
