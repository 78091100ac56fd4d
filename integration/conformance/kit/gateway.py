"""Checks a gateway against the vectors and against docs/api.md and docs/answers.md."""

import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Optional

from . import arrow, data, framed, rows, shards, tables, vectors
from .crc32c import crc32c
from .http import Answer, ask, batch_path
from .report import Report

TAR = batch_path("tar", 0, 1, {})


def check(base: str, loaded: dict[str, Any], report: Report) -> None:
    """Runs every check. Each check has a name and lists its violations."""
    with report.check("datasets of the kit"):
        for name, want in loaded["datasets"].items():
            said = ask(base, f"/v1/datasets/{name}").json()
            got = {k: said.get(k) for k in want}
            report.want(f"dataset {name}; is it made by `check.py data`?", got, want)
    for vector in loaded["vectors"]:
        path = batch_path(vector["dataset"], vector["epoch"], vector["batch"], vector["parameters"])
        with report.check(f"vector {path}"):
            answer = ask(base, path)
            for difference in vectors.differences(vector, answer):
                report.wrong(difference)
            headers(report, answer, vector)
    for d in data.DATASETS:
        with report.check(f"every sample of {d.name} once, over three ranks"):
            once(report, base, d)
        with report.check(f"forms of {d.name} hold the same"):
            agree(report, base, d)
    for name, chosen in (("parquet", ()), ("arrow", ()), ("columns", tables.CHOSEN)):
        with report.check(f"rows of {name} are those that were written"):
            written(report, base, name, chosen)
    for name, test in CHECKS.items():
        with report.check(name):
            test(report, base)


def headers(report: Report, answer: Answer, vector: dict[str, Any]) -> None:
    report.want("Millrace-Crc32c", answer.header("Millrace-Crc32c"), vector["crc32c"])
    report.want("Content-Length", answer.header("Content-Length"), str(vector["length"]))
    report.want("Millrace-Epoch", answer.header("Millrace-Epoch"), str(vector["epoch"]))
    report.want("Millrace-Batch", answer.header("Millrace-Batch"), str(vector["batch"]))
    if not re.fullmatch(r'"[^"]+"', answer.header("ETag")):
        report.wrong(f"ETag: got {answer.header('ETag')!r}, want a strong one")
    last = vector["batch"] + 1 == vector["batches"]
    report.want("a Link to the next batch", 'rel="next"' in answer.header("Link"), not last)


def follow(base: str, path: str) -> Iterator[Answer]:
    """The batches from path on. Each response's Link leads to the next one."""
    while path:
        answer = ask(base, path)
        if answer.status != 200:
            raise ValueError(f"{path}: status {answer.status}")
        yield answer
        found = re.match(r'<([^>]*)>; *rel="next"', answer.header("Link"))
        path = found[1] if found else ""


def once(report: Report, base: str, d: data.Dataset) -> None:
    """The kit has written the stored bytes, so this check does not rely on the gateway for them."""
    got: Counter[bytes] = Counter()
    for rank in range(3):
        plan = {"format": "framed", "batch_size": "7", "rank": str(rank), "world_size": "3"}
        for answer in follow(base, batch_path(d.name, 4, 0, plan)):
            got.update(framed.parse(answer.body).samples)
    want = Counter(d.write()[1])
    report.want("samples that differ from those written", sum(((got - want) + (want - got)).values()), 0)


def agree(report: Report, base: str, d: data.Dataset) -> None:
    """A batch must have the same content in all forms."""

    def get(**parameters: str) -> Answer:
        return ask(base, batch_path(d.name, 1, 1, parameters))

    whole = framed.parse(get(format="framed", table="keys,parts").body)
    manifest = ask(base, batch_path(d.name, 1, 1, {}).replace("/batches/1", "/batches/1/manifest")).json()["samples"]
    report.want("keys of table and manifest", whole.keys, [s["key"] for s in manifest])
    stored = framed.parse(get(format="framed").body).samples  # without the parts that the gateway adds
    report.want("lengths of table and manifest", [len(s) for s in stored], [s["length"] for s in manifest])
    report.want("samples with and without parts", [s[: len(t)] for s, t in zip(whole.samples, stored)], stored)
    sums = [f"{crc32c(s):08x}" for s in stored]
    report.want("checksums of samples and manifest", sums, [s["crc32c"] for s in manifest])
    parts = [content for sample in whole.parts or [] for content in sample.values()]
    tar = tarfile.open(fileobj=BytesIO(get(format="tar").body))  # noqa: SIM115
    report.want("members of the tar", [tar.extractfile(m).read() for m in tar.getmembers()], parts)  # type: ignore[union-attr]
    report.want("parts of multipart", multipart(get(format="multipart")), parts)
    names = d.fields.split(",")
    some = framed.parse(get(format="framed", table="parts", fields=d.fields).body)
    wanted = [{name: sample[name] for name in names if name in sample} for sample in whole.parts or []]
    report.want("parts that fields= names", [list(s.items()) for s in some.parts or []], [list(s.items()) for s in wanted])
    report.want("samples of those parts", some.samples, [b"".join(s.values()) for s in wanted])
    columns(report, arrow.columns(get(format="arrow").body), whole)
    if d.native != "mds":
        empty = dict.fromkeys((name for sample in whole.parts or [] for name in sample), b"")
        keyed = zip(whole.keys or [], whole.parts or [])
        got = [{name: cell for name, cell in sample.items() if cell or name in empty} for sample in shards.mds(get(format="mds").body)]
        report.want("columns of the MDS shard", got, [{"__key__": key.encode(), **empty, **sample} for key, sample in keyed])
    if d.around is not None:
        report.want("the form of its own", get().body, b"".join([d.around[0], *stored, d.around[1]]))


def columns(report: Report, got: dict[str, arrow.Column], whole: framed.Framed) -> None:
    """The cells of an Arrow stream must equal the bytes of the parts."""
    parts = whole.parts or []
    report.want("keys of the Arrow stream", got.pop("__key__").cells, [key.encode() for key in whole.keys or []])
    for name, column in got.items():
        cells = column.cells
        if name == "cls" and column.type == "int64":  # an integer for class folders, decimal digits in other forms
            cells = [cell and b"%d" % int.from_bytes(cell, "little") for cell in cells]
        report.want(f"cells of the column {name}", cells, [sample.get(name) for sample in parts])
    left = {name for sample in parts for name, content in sample.items() if content} - set(got)
    report.want("parts without a column", left, set())


def written(report: Report, base: str, name: str, chosen: tuple[str, ...]) -> None:
    """Rows, their parts and the types in the description must equal those of kit/tables.py."""
    schema, all_values = tables.table(chosen)
    known = {rows.row(schema, values): rows.parts(schema, values) for values in all_values}
    fields = ask(base, f"/v1/datasets/{name}").json()["fields"]
    said = tuple((f["name"], f["encoding"], f["type"], f.get("nullable", False)) for f in fields)
    report.want("fields", said, tuple(f for f in tables.FIELDS if not chosen or f[0] in chosen))
    typed = arrow.columns(ask(base, batch_path(name, 1, 0, {"format": "arrow"})).body)
    report.want("types of the Arrow stream", {k: v.type for k, v in typed.items()}, {
        k: v for k, v in tables.ARROW.items() if not chosen or k in ("__key__", *chosen)
    })  # fmt: skip
    for answer in follow(base, batch_path(name, 1, 0, {"format": "framed", "table": "parts"})):
        got = framed.parse(answer.body)
        for row, parts in zip(got.samples, got.parts or []):
            report.want(f"parts of the row {row.hex()}", parts, known.get(row))


def multipart(answer: Answer) -> list[bytes]:
    """The parts of a multipart body, according to their Content-Length."""
    found = re.fullmatch(r"multipart/mixed; boundary=(\S+)", answer.header("Content-Type"))
    if not found:
        raise ValueError(f"Content-Type {answer.header('Content-Type')!r}")
    out, at, begin = [], 0, f"--{found[1]}\r\n".encode()
    while answer.body.startswith(begin, at):
        end = answer.body.index(b"\r\n\r\n", at) + 4
        length = int(re.search(rb"Content-Length: (\d+)", answer.body[at:end])[1])  # type: ignore[index]
        out.append(answer.body[end : end + length])
        at = end + length + 2
    if answer.body[at:] != f"--{found[1]}--\r\n".encode():
        raise ValueError("a multipart body without its end")
    return out


def head(report: Report, base: str) -> None:
    got, want = ask(base, TAR, "HEAD"), ask(base, TAR)
    report.want("status", got.status, 200)
    report.want("body", got.body, b"")
    for name in ("Content-Length", "ETag", "Content-Type", "Content-Location", "Millrace-Crc32c", "Millrace-Batches"):
        report.want(name, got.header(name), want.header(name))


def canonical(report: Report, base: str) -> None:
    first = ask(base, TAR)
    if "generation=" not in first.header("Content-Location"):
        report.wrong(f"Content-Location: got {first.header('Content-Location')!r}, want one with a generation")
        return
    second = ask(base, first.header("Content-Location"))
    report.want("body", second.body, first.body)
    report.want("ETag", second.header("ETag"), first.header("ETag"))
    if "immutable" not in second.header("Cache-Control"):
        report.wrong(f"Cache-Control: got {second.header('Cache-Control')!r}, want immutable")
    report.want("Cache-Control without a generation", first.header("Cache-Control"), "no-cache")


def state(report: Report, base: str) -> None:
    """A run resumes from a state: by the first digits of the generation, and within a batch, whose rest ranks share."""
    plan = {"format": "framed", "batch_size": "7"}
    whole = ask(base, batch_path("tar", 0, 1, plan))
    generation = whole.header("Millrace-Generation")
    answer = ask(base, batch_path("tar", 0, 1, {**plan, "generation": generation[:32]}))
    for name in ("ETag", "Content-Location", "Millrace-Generation"):
        report.want(f"{name} by 32 digits", answer.header(name), whole.header(name))
    digests = ask(base, "/v1/datasets/tar/epochs/0").json()["plan_digests"]
    report.want("positions of the plan digests", [d["position"] for d in digests], [0])
    for skip in (1, 4, 6):
        rest: list[bytes] = []
        for rank in range(3):
            share = {**plan, "skip": str(skip), "rank": str(rank), "world_size": "3"}
            part = framed.parse(ask(base, batch_path("tar", 0, 1, share)).body).samples
            report.want(f"samples of rank {rank} with skip={skip}", len(part), (rank + 1) * (7 - skip) // 3 - rank * (7 - skip) // 3)
            rest += part
        report.want(f"samples with skip={skip}", rest, framed.parse(whole.body).samples[skip:])
    problem(report, ask(base, batch_path("tar", 0, 1, {**plan, "skip": "7"})), 400, "invalid_argument")


def unchanged(report: Report, base: str) -> None:
    etag = ask(base, TAR, "HEAD").header("ETag")
    for value, status in ((etag, 304), (f'"other", {etag}', 304), ("*", 304), ('"other"', 200)):
        answer = ask(base, TAR, headers={"If-None-Match": value})
        report.want(f"status with If-None-Match: {value}", answer.status, status)
        if status == 304:
            report.want("body of a 304", answer.body, b"")
            report.want("ETag of a 304", answer.header("ETag"), etag)


def resume(report: Report, base: str) -> None:
    whole = ask(base, TAR)
    etag, size = whole.header("ETag"), len(whole.body)
    for first in (0, 1, 511, 513, size // 2, size - 1):
        answer = ask(base, TAR, headers={"Range": f"bytes={first}-", "If-Range": etag})
        report.want(f"status from {first}", answer.status, 206)
        report.want(f"Content-Range from {first}", answer.header("Content-Range"), f"bytes {first}-{size - 1}/{size}")
        report.want(f"bytes from {first}", answer.body == whole.body[first:], True)
        report.want("Millrace-Crc32c of a part", answer.header("Millrace-Crc32c"), whole.header("Millrace-Crc32c"))
    middle = ask(base, TAR, headers={"Range": "bytes=100-199"})
    report.want("bytes 100-199", (middle.status, middle.body), (206, whole.body[100:200]))
    other = ask(base, TAR, headers={"Range": "bytes=100-", "If-Range": '"other"'})
    report.want("with another ETag in If-Range", (other.status, other.body == whole.body), (200, True))
    outside = ask(base, TAR, headers={"Range": f"bytes={size}-"})
    report.want("status past the end", outside.status, 416)
    report.want("Content-Range past the end", outside.header("Content-Range"), f"bytes */{size}")


def problem(report: Report, answer: Answer, status: int, code: str) -> Optional[dict[str, Any]]:
    """Checks that a response is a problem document of RFC 9457."""
    report.want("status", answer.status, status)
    report.want("Content-Type", answer.header("Content-Type").split(";")[0], "application/problem+json")
    report.want("Cache-Control", answer.header("Cache-Control"), "no-store")
    try:
        said: dict[str, Any] = answer.json()
    except ValueError:
        report.wrong(f"body: got {answer.body[:200]!r}, want JSON")
        return None
    report.want("code", said.get("code"), code)
    report.want("retryable", said.get("retryable"), False)
    report.want("status in the body", said.get("status"), status)
    report.want("request_id", said.get("request_id"), answer.header("X-Request-Id"))
    return said


def past_the_end(report: Report, base: str) -> None:
    said = problem(report, ask(base, batch_path("tar", 0, 8, {})), 404, "end_of_epoch")
    report.want("batches", said and said.get("batches"), 8)


def bad_parameters(report: Report, base: str) -> None:
    for parameters, names in (
        ({"batch_size": "0", "sede": "1", "rank": "5"}, {"batch_size", "sede", "rank"}),
        ({"batch_size": "+8"}, {"batch_size"}),
        ({"batch_size": "08"}, {"batch_size"}),
        ({"seed": "18446744073709551616"}, {"seed"}),
        ({"format": "zip"}, {"format"}),
        ({"fields": "nothing"}, {"fields"}),
        ({"shuffle": "full", "window": "3"}, {"window"}),
        ({"shuffle": ""}, {"shuffle"}),
    ):
        said = problem(report, ask(base, batch_path("tar", 0, 0, parameters)), 400, "invalid_argument")
        report.want(f"faults of {parameters}", said and {f["name"] for f in said.get("faults", [])}, names)
    twice = ask(base, batch_path("tar", 0, 0, {}) + "?seed=1&seed=1")
    problem(report, twice, 400, "invalid_argument")


def unknown(report: Report, base: str) -> None:
    for path in ("/v1/datasets/nothing", batch_path("nothing", 0, 0, {}), "/v2"):
        problem(report, ask(base, path), 404, "not_found")
    problem(report, ask(base, batch_path("tar", 0, 0, {"generation": "0" * 64})), 404, "generation_gone")


def not_acceptable(report: Report, base: str) -> None:
    problem(report, ask(base, TAR, headers={"Accept": "image/png"}), 406, "not_acceptable")
    for accept, got in (("application/vnd.millrace.framed", "application/vnd.millrace.framed"), ("*/*", "application/x-tar")):
        report.want(f"Content-Type with Accept: {accept}", ask(base, TAR, headers={"Accept": accept}).header("Content-Type"), got)
    report.want("Vary", ask(base, TAR).header("Vary"), "Accept")


def methods(report: Report, base: str) -> None:
    answer = ask(base, TAR, "DELETE")
    problem(report, answer, 405, "method_not_allowed")
    report.want("Allow", answer.header("Allow"), "GET, HEAD, OPTIONS")


def request_ids(report: Report, base: str) -> None:
    answer = ask(base, TAR, "HEAD", {"X-Request-Id": "conformance-1"})
    report.want("X-Request-Id", answer.header("X-Request-Id"), "conformance-1")


def together(report: Report, base: str) -> None:
    """Many batches in one response must equal the single batches."""
    path = "/v1/datasets/tar/epochs/0/batches?from=2&count=4&format=framed"
    answer = ask(base, path)
    report.want("status", answer.status, 200)
    several = framed.batches(answer.body)
    report.want("batches", [b.batch for b in several], [2, 3, 4, 5])
    for b in several:
        alone = ask(base, batch_path("tar", 0, b.batch, {"format": "framed"}))
        report.want(f"body of batch {b.batch}", b.body == alone.body, True)
        report.want(f"ETag of batch {b.batch}", b.etag, alone.header("ETag"))
        report.want(f"checksum of batch {b.batch}", f"{b.crc:08x}", alone.header("Millrace-Crc32c"))
    rest = ask(base, path, headers={"Range": "bytes=1000-", "If-Range": answer.header("ETag")})
    report.want("the rest of it", (rest.status, rest.body == answer.body[1000:]), (206, True))


def virtual(report: Report, base: str) -> None:
    """An epoch as a directory of MDS shards must contain the batches."""
    index = json.loads(ask(base, "/v1/datasets/tar/epochs/2/mds/index.json").body)
    for n, shard in enumerate(index["shards"]):
        alone = ask(base, batch_path("tar", 2, n, {"format": "mds"}))
        said = ask(base, f"/v1/datasets/tar/epochs/2/mds/{shard['raw_data']['basename']}")
        report.want(f"shard {n}", (said.status, said.body == alone.body, len(said.body)), (200, True, shard["raw_data"]["bytes"]))


CHECKS = {
    "HEAD says what GET says": head,
    "Content-Location is the same batch for ever": canonical,
    "a run resumes from a state": state,
    "If-None-Match: 304": unchanged,
    "a body is gone on with by Range and If-Range": resume,
    "past the end: 404 end_of_epoch": past_the_end,
    "bad parameters: 400, all of them named": bad_parameters,
    "unknown dataset, generation, path: 404": unknown,
    "Accept: 406, or what it asks for": not_acceptable,
    "other methods: 405": methods,
    "request ids come back": request_ids,
    "many batches in one answer": together,
    "an epoch as a directory of MDS shards": virtual,
}
