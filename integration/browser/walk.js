// Goes through the views of a dataset as a person would, within the page, and tells what is wrong with them.

const manual = "https://github.com/millrace-data/millrace/blob/main/docs/index.md";

// alien lists what is in the page and is none of the page's own: elements that run or load something, listeners and styles in attributes,
// addresses that lead elsewhere.
function alien() {
  const faults = [];
  const tags = "a b br button canvas code details dd div dl dt form h1 h2 h3 img input label li nav ol p pre section select option span strong summary figure figcaption table caption thead tbody tr th td ul audio video dialog header noscript".split(" ");
  for (const e of document.querySelectorAll("header *, #status *, main *, #spoken *")) {
    if (e.closest("figure.chart")) continue; // the library of charts has elements and styles of its own
    if (!(e instanceof HTMLElement) || !tags.includes(e.localName)) faults.push(`an element ${e.outerHTML.slice(0, 200)}`);
    for (const { name, value } of e.attributes) {
      const good = name === "href" ? value.startsWith("#/") || value === manual : name === "src" ? value.startsWith(`blob:${location.origin}/`) : !/^(on|style|srcdoc|formaction|action|xlink)/.test(name);
      if (!good) faults.push(`an attribute ${name}="${value.slice(0, 200)}" of a ${e.localName}`);
    }
  }
  if (Object.keys(Object.prototype).length > 0 || ({}).polluted || ({}).x) faults.push("the prototype of objects has new members");
  return faults;
}

// until waits for what a function returns, for half a minute.
async function until(what, is) {
  for (const end = performance.now() + 25000; performance.now() < end;) {
    const found = is();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
  throw new Error(`${what} does not come: ${document.querySelector("main").innerText.slice(0, 400)}`);
}

const all = (selector, of = document) => [...of.querySelectorAll(selector)];

// shown says whether an element shows a picture, a player, or words.
const shown = (e) => all("img", e).some((i) => i.naturalWidth > 0) || e.querySelector("canvas, audio, video") || e.innerText.replaceAll(".", "").trim() !== "";
const settled = (e) => all("img", e).every((i) => i.naturalWidth > 0) && !e.querySelector(".loading"); // a broken one gives way to words

// walk shows the list, a dataset, its first batch by a plan, and each sample twice. Nothing that `never` selects may be there.
async function walk(name, never, plan = "") {
  const faults = [], said = new Set(), base = `#/data/${encodeURIComponent(name)}`;
  const tiles = [], parts = [];
  let samples = 0, at = "";
  performance.clearResourceTimings();
  const look = (what) => {
    for (const fault of alien()) faults.push(`${what}: ${fault}`);
    for (const e of all(never)) faults.push(`${what}: ${e.outerHTML.slice(0, 200)}`);
    for (const e of all("main *, #panel *")) if (e.childElementCount === 0 && e.textContent) said.add(e.textContent);
  };
  const go = async (fragment, ready) => {
    at = fragment;
    location.hash = fragment;
    return until(fragment, ready);
  };
  try {
    await go("#/data", () => all("#datasets td").length);
    look("the list");
    await go(base, () => document.querySelector("#find"));
    look("the dataset");
    await go(`${base}/epochs/0/batches/0?${plan}`, () => all(".tile").length && all(".tile").every((t) => t.dataset.state));
    for (const tile of all(".tile")) {
      await until("a picture", () => settled(tile));
      tiles.push([tile.dataset.position, tile.querySelector("a").title, tile.dataset.state].join(" "));
      if (!shown(tile.querySelector(".seen"))) faults.push(`the tile at ${tile.dataset.position} says nothing`);
    }
    look("the batch");
    const manifest = await (await fetch(`v1/datasets/${encodeURIComponent(name)}/epochs/0/batches/0/manifest?${plan}`)).json();
    for (const s of manifest.samples) {
      samples++;
      const panel = await go(`${base}/epochs/0/batches/0?${plan}&sample=${s.position}`, () => document.querySelector("#panel[open] .part, #panel[open] .parts .problem") && document.querySelector("#panel"));
      await until("the whole panel", () => settled(panel));
      if (!all(".part, .parts .problem", panel).every(shown)) faults.push(`the panel of the sample at ${s.position} says nothing`);
      parts.push(all(".part h3", panel).map((e) => e.firstChild.data).sort());
      look(`the panel of the sample at ${s.position}`);
      const key = s.key_base64 ? `key64=${encodeURIComponent(s.key_base64)}` : `key=${encodeURIComponent(s.key)}`;
      await go(`${base}/sample?${key}&shard=${encodeURIComponent(s.shard)}`, () => document.querySelector("main > .sample .part, main > .problem, main .parts .problem"));
      await until("the whole sample", () => settled(document.querySelector("main")));
      if (document.querySelector("main > .problem")) faults.push(`the sample at ${s.position} is not found by its key: ${document.querySelector("main > .problem").innerText.slice(0, 300)}`);
      look(`the view of the sample at ${s.position}`);
    }
  } catch (e) {
    faults.push(`${at.slice(0, 200)}: ${e.message}`);
  }
  const bytes = performance.getEntriesByType("resource").reduce((sum, e) => sum + e.transferSize, 0);
  return { Faults: faults, Samples: samples, Bytes: bytes, Tiles: tiles, Parts: parts, Said: [...said].join("\n") };
}

// visit shows views that may be problems.
async function visit(fragments) {
  const faults = [], said = new Set();
  const nowhere = () => document.querySelector("main .problem")?.textContent.includes("has no such view");
  let views = 0;
  for (const fragment of fragments) {
    try {
      location.hash = "#/nowhere";
      await until("no view", nowhere);
      location.hash = fragment;
      await until(fragment, () => !nowhere() && document.querySelector("main .problem, main .tile[data-state], main table, #panel .part, main > p") && !document.querySelector("main .loading"));
      for (const fault of alien()) faults.push(`${fragment}: ${fault}`);
      for (const e of all("header *, main *")) if (e.childElementCount === 0 && e.textContent) said.add(e.textContent);
      if (document.querySelector("main").innerText.includes("Error in the page")) faults.push(`${fragment}: ${document.querySelector("main").innerText.slice(0, 300)}`);
      views++;
    } catch (e) {
      faults.push(`${fragment}: ${e.message}`);
    }
  }
  return { Faults: faults, Samples: views, Said: [...said].join("\n") };
}
