"""Planted holes of the page, through which data would run, lead elsewhere, or fill a tab."""

PAGE = "gateway/dashboard/page/"
POLICY = "gateway/dashboard/dashboard.go"
TRUSTED = (POLICY, '"connect-src \'self\'; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'; " +\n\t"require-trusted-types-for \'script\'; trusted-types \'none\'"', '"connect-src \'self\'; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'"')
INLINE = (POLICY, "script-src 'self'; ", "script-src 'self' 'unsafe-inline'; ")
TEXT = "document.createTextNode(String(c))"
MARKUP = "document.createRange().createContextualFragment(String(c))"

PLANTS = [
    (
        "text becomes markup on the page, and the policy does not know trusted types",
        "./integration/browser TestHostileData/labels",
        [(PAGE + "dom.js", TEXT, MARKUP), TRUSTED],
    ),
    (
        "text becomes markup on the page, and the policy lets it run",
        "./integration/browser TestHostileAnswers/a_problem_of_markup",
        [(PAGE + "dom.js", TEXT, MARKUP), TRUSTED, INLINE],
    ),
    (
        "the page refuses markup only by its policy",
        "./integration/browser TestHostileData/keys-of-markup",
        [(PAGE + "dom.js", TEXT, MARKUP)],
    ),
    (
        "a drawing becomes a part of the page",
        "./integration/browser TestHostileData/drawings",
        [(PAGE + "show.js", "  box.append(el(\"img\",", "  if (found.text) box.append(new DOMParser().parseFromString(found.text, \"image/svg+xml\").documentElement);\n  else box.append(el(\"img\","), TRUSTED, INLINE],
    ),
    (
        "a document of the data's is shown in a frame",
        "./integration/browser TestHostileData/documents",
        [(PAGE + "sample.js", "    found.kind === \"tokens\" && tokenizer(again),", "    found.kind === \"text\" && el(\"iframe\", { src: blobs.url(p.bytes, \"text/html\") }),"), (POLICY, "media-src blob:; ", "media-src blob:; frame-src blob:; "), INLINE],
    ),
    (
        "a part is downloaded by an address that holds it",
        "./integration/browser TestHostileData/documents",
        [(PAGE + "sample.js", "    found.kind === \"tokens\" && tokenizer(again),", "    el(\"a\", { href: `data:text/html,${encodeURIComponent(found.text)}` }, \"Open\"),")],
    ),
    (
        "a picture has the size that its first bytes promise",
        "./integration/browser TestHostileData/huge-pictures",
        [(PAGE + "media.js", "image(\"image/gif\", ...gif(b, view))", "image(\"image/gif\", view.getUint16(6, true), view.getUint16(8, true))")],
    ),
    (
        "a large sample is loaded further than anybody looks",
        "./integration/browser TestHostileData/a-gigabyte",
        [(PAGE + "sample.js", "const beginning = 1 << 16;", "const beginning = 1 << 24;")],
    ),
    (
        "a proxy's answer leaves the page without words",
        "./integration/browser TestHostileAnswers/a_problem_of_markup",
        [(PAGE + "api.js", "body.faults.filter(Boolean)", "body.faults")],
    ),
    (
        "a sample that fills the last batch is asked for where the epoch has none",
        "./integration/browser TestPlansOfBatches/padded",
        [(PAGE + "batch.js", "positions.map((p) => p % this.own)", "positions")],
    ),
    (
        "the page shows the first part of a sample alone",
        "./integration/browser TestFormats/tar",
        [(PAGE + "sample.js", "sample.parts.slice(0, 256).map(", "sample.parts.slice(0, 1).map(")],
    ),
    (
        "the page reads numbers of big-endian arrays as little-endian ones",
        "./integration/browser TestFormats/media",
        [(PAGE + "numbers.js", "type.read(v, i * type.size, !big)", "type.read(v, i * type.size, true)")],
    ),
    (
        "the page goes back to the dataset's own plan where a person leaves a batch for its dataset",
        "./integration/browser TestJobsPlan",
        [(PAGE + "batch.js", 'place.to(["data", this.dataset], plan) }', 'place.to(["data", this.dataset]) }')],
    ),
    (
        "a batch does not say that one of its samples cannot be shown",
        "./integration/browser TestUnreadableSamples",
        [(PAGE + "batch.js", 'if (tile.seen.querySelector(".broken")) this.tell();', "")],
    ),
    (
        "a picture whose first bytes are lost is not told of",
        "./integration/browser TestUnreadableSamples",
        [(PAGE + "values.js", "bytes, broken: true, note: \"These bytes are not a readable picture.\"", "bytes, note: \"These bytes are not a readable picture.\"")],
    ),
    (
        "the order of the dataset's own plan does not say that a job reads another one",
        "./integration/browser TestJobsPlan",
        [(PAGE + "order.js", "isOwn(place.query) && jobsThatRead(place, name)", "false && jobsThatRead(place, name)")],
    ),
    (
        "a batch of the dataset's own plan does not say that a job reads another one",
        "./integration/browser TestJobsPlan",
        [(PAGE + "batch.js", "isOwn(place.query) && jobsThatRead", "false && jobsThatRead")],
    ),
]
