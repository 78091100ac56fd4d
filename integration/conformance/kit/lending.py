"""Checks a gateway on a Unix socket against docs/spec/shared-memory.md."""

from . import data, framed
from .http import batch_path
from .report import Report
from .shared import TYPE, Connection, Lent

OWN = ("Content-Type", "Content-Length", "Millrace-Shared", "X-Request-Id", "Server-Timing", "Date")
LEAST = 64 << 10  # minimum size in bytes of samples that are shared
HELD, READ = 6, 200  # number of batches


def check(path: str, report: Report) -> bool:
    """Runs the checks at a socket. Returns False for a gateway that shares no memory, which is no violation."""
    lent = 0
    for d in data.DATASETS:
        with report.check(f"in memory, batches of {d.name} are those in the form framed"):
            lent += same(report, path, d)
    if not lent:
        return False
    for name, test in CHECKS.items():
        with report.check(name):
            connection = Connection(path)
            try:
                test(report, connection)
                for fault in connection.faults:
                    report.wrong(fault)
            finally:
                connection.forget()
    return True


def plans(fields: str) -> list[dict[str, str]]:
    all_of_it = {"format": "framed", "batch_size": "100000"}
    return [
        all_of_it,
        {**all_of_it, "table": "keys,parts"},
        {**all_of_it, "table": "parts", "fields": fields},
        {**all_of_it, "rank": "1", "world_size": "2"},
        {"format": "framed", "batch_size": "2", "table": "keys"},
    ]


def same(report: Report, path: str, d: data.Dataset) -> int:
    """Table and memory together must equal the body of the form framed, with the same headers.

    Returns the number of batches in shared memory.
    """
    connection, lent = Connection(path), 0
    try:
        for parameters in plans(d.fields):
            at = batch_path(d.name, 3, 0, parameters)
            want = connection.ask(at)
            got = connection.lend(at)
            lent += got.memory is not None
            size = sum(len(s) for s in framed.parse(want.body).samples)
            if got.memory is not None and size < LEAST:
                report.wrong(f"{at}: {size} bytes came in memory")
            report.want(f"{at}: table and memory", got.whole == want.body, True)
            headers = [[(k, v) for k, v in answer.headers.items() if k not in OWN] for answer in (got, want)]
            report.want(f"{at}: headers", headers[0], headers[1])
            connection.ask("/healthz", release=released(got))
        for fault in connection.faults:
            report.wrong(fault)
    finally:
        connection.forget()
    return lent


def released(answer: Lent) -> list[str]:
    return [answer.said["lease"]] if answer.said else []


BIG = {"format": "framed", "batch_size": "100000"}


def biggest(connection: Connection) -> str:
    """Returns the path of a batch that arrives in shared memory."""
    for d in data.DATASETS:
        path = batch_path(d.name, 0, 0, BIG)
        answer = connection.lend(path)
        connection.ask("/healthz", release=released(answer))
        if answer.said:
            return path.replace("/epochs/0/", "/epochs/%d/")
    raise ValueError("no batch came in memory")


def otherwise(report: Report, connection: Connection) -> None:
    path = biggest(connection) % 1
    whole = connection.ask(path)
    for name, method, at, headers, status in (
        ("HEAD", "HEAD", path, {}, 200),
        ("a part", "GET", path, {"Range": "bytes=100-199"}, 206),
        ("304", "GET", path, {"If-None-Match": whole.header("ETag")}, 304),
        ("another form", "GET", path.replace("framed", "tar"), {}, 200),
        ("a fault", "GET", path + "&rank=7", {}, 400),
    ):
        answer = connection.ask(at, method, headers={"Accept": f"{TYPE}, */*", **headers})
        report.want(f"{name}: status and memory", (answer.status, answer.said), (status, {}))
        if name == "a part":
            report.want("the part", answer.body, whole.body[100:200])


def held(report: Report, connection: Connection) -> None:
    """Memory in use must stay unchanged while other batches are read and released."""
    path = biggest(connection)
    kept = [connection.lend(path % i) for i in range(HELD)]
    copies = [answer.whole for answer in kept]
    used = {answer.said["segment"] for answer in kept if answer.said}
    last: list[str] = []
    again = 0
    for i in range(READ):
        answer = connection.lend(path % (HELD + i % 7), release=last)
        if answer.said and answer.said["segment"] in used:
            report.wrong(f"memory that is held was lent again: {answer.said}")
        again += bool(answer.said) and "descriptor" not in answer.said
        last = released(answer)
    report.want("batches that have changed", [i for i, answer in enumerate(kept) if answer.whole != copies[i]], [])
    report.want("memory that was let go of is used again", again > READ // 2, True)
    report.want("segments are fewer than batches", len(connection.descriptors) < READ // 2, True)


def ended(report: Report, connection: Connection) -> None:
    """Mapped memory must stay valid after its connection has ended."""
    path = biggest(connection)
    kept = connection.lend(path % 1)
    copy = kept.whole
    connection.close()
    other = Connection(connection.path)
    try:
        for i in range(20):
            other.ask("/healthz", release=released(other.lend(path % i)) + released(kept))
        report.want("what was mapped", kept.whole == copy, True)
    finally:
        other.forget()


def nonsense(report: Report, connection: Connection) -> None:
    """The gateway must ignore invalid lease numbers."""
    path = biggest(connection)
    kept = connection.lend(path % 1)
    copy = kept.whole
    for text in ("999999", "x, , -1", str(2**70)):
        report.want(f"status with Millrace-Release: {text}", connection.ask("/healthz", release=[text]).status, 200)
    connection.lend(path % 2)
    report.want("what is held", kept.whole == copy, True)


CHECKS = {
    "HEAD, a part, 304, another form and a fault are never in memory": otherwise,
    "memory that is held is not written, and what is let go of is used again": held,
    "memory outlives its connection": ended,
    "leases that are not lent cannot be let go of": nonsense,
}
