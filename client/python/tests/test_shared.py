"""Shared memory of a gateway: refusals by readers, unchanged data, releases."""

from __future__ import annotations

import gc
import mmap
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import lender
import pytest
from lender import Lender, Lie, Reply

import millrace
from millrace import Routing
from millrace._http.fleet import parse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")


@pytest.fixture
def lends(gateway: harness.Gateway, place: Path) -> Iterator[Callable[..., Lender]]:
    """Creates gateways that share memory, with faults of the test's choice."""
    made: list[Lender] = []

    def lend(lie: Lie = lambda *_: None, **options: int) -> Lender:
        made.append(Lender(gateway.port, place / f"s{len(made)}", lie, **options))
        return made[-1]

    yield lend
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def wanted(gateway: harness.Gateway) -> list[bytes]:
    """The bytes of all batches of epoch 0, as received over TCP."""
    with millrace.Client(gateway.url) as client:
        return [bytes(batch.data) for batch in client.epoch(0)]


def mapped() -> int:
    """The number of the test's segments that this process has mapped for reading."""
    gc.collect()
    return len(re.findall(f"r--s.*{lender.NAME}", Path("/proc/self/maps").read_text()))


def descriptors() -> int:
    """The number of open descriptors of this process."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def says(**changes: str | None) -> Lie:
    """Replaces members of Millrace-Shared; None removes a member."""

    def lie(_: int, reply: Reply) -> None:
        reply.said.update({k: v for k, v in changes.items() if v is not None})
        for k in (k for k, v in changes.items() if v is None):
            reply.said.pop(k, None)

    return lie


def tells(text: str) -> Lie:
    """Replaces Millrace-Shared by a text."""
    return lambda _, reply: setattr(reply, "text", text)


def gives(make: Callable[[Reply], list[int]]) -> Lie:
    """Sends other descriptors."""

    def lie(_: int, reply: Reply) -> None:
        for d in reply.descriptors:
            os.close(d)
        reply.descriptors[:] = []
        reply.descriptors[:] = make(reply)

    return lie


def fresh(reply: Reply, more: int = 0, seals: int = lender.SEALS) -> int:
    return lender.memory(b"", int(reply.said["size"]) + more, seals)[0]


def file(reply: Reply) -> int:
    with tempfile.TemporaryFile() as f:
        f.truncate(int(reply.said["size"]))
        return os.dup(f.fileno())


def pipe(_: Reply) -> list[int]:
    reading, writing = os.pipe()
    os.close(writing)
    return [reading]


def cut_table(_: int, reply: Reply) -> None:
    reply.table = reply.table[:-8]


def table_of_nothing(_: int, reply: Reply) -> None:
    reply.table = bytes(len(reply.table))


LIES: dict[str, Lie] = {
    "no header": tells(""),
    "no dictionary": tells("{}"),
    "half a dictionary": tells("lease=0, segment=0, size=("),
    "numbers that are none": says(length="x"),
    "negative numbers": says(length="-1"),
    "2^60 bytes": says(size=str(1 << 60)),
    "2^60 samples": says(length=str(1 << 60), size=str(1 << 60)),
    "numbers that do not end": says(lease="9" * 5000),
    "gone is no list": says(gone="5"),
    "a list that does not end": says(gone="(5"),
    "no lease": says(lease=None),
    "longer than the memory": says(size="70000"),
    "empty": says(length="0"),
    "shorter than the table says": says(length="65536"),
    "an unknown segment": says(segment="77", descriptor=None),
    "the memory is gone at once": says(gone="(0)"),
    "a descriptor that nobody has announced": says(descriptor=None),
    "no descriptor": gives(lambda _: []),
    "two descriptors": gives(lambda r: [fresh(r), fresh(r)]),
    "many descriptors": gives(lambda r: [fresh(r) for _ in range(60)]),
    "shorter memory": gives(lambda r: [fresh(r, -4096)]),
    "longer memory": gives(lambda r: [fresh(r, 4096)]),
    "memory without seals": gives(lambda r: [fresh(r, seals=0)]),
    "memory that can shrink": gives(lambda r: [fresh(r, seals=lender.GROW | lender.FUTURE_WRITE)]),
    "memory that others can write": gives(lambda r: [fresh(r, seals=lender.GROW | lender.SHRINK)]),
    "a file": gives(lambda r: [file(r)]),
    "a pipe": gives(pipe),
    "a directory": gives(lambda _: [os.open("/", os.O_RDONLY)]),
    "a path": gives(lambda _: [os.open("/", os.O_PATH)]),
    "a short table": cut_table,
    "a table of nothing": table_of_nothing,
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lends: Callable[..., Lender], wanted: list[bytes], lie: str) -> None:
    before = descriptors()

    def twice(number: int, reply: Reply) -> None:
        if number < 2:
            LIES[lie](number, reply)

    once = lends(twice)
    with millrace.Client(once.url) as client:
        assert bytes(client.epoch(0).batch(3).data) == wanted[3]  # after the faults
    always = lends(LIES[lie])
    with millrace.Client(always.url, routing=Routing(check="never")) as client:
        epoch = client.epoch(0)
        with pytest.raises(millrace.errors.ProtocolError, match=r"batch 3: .*(Millrace-Shared|table)"):
            epoch.batch(3)
        once.close()
        always.close()
        assert always.connections >= 4  # an invalid reply ends its connection
        assert descriptors() <= before + 1  # while the client is open: the connection that described the dataset
    assert (mapped(), descriptors()) == (0, before)


@pytest.mark.parametrize("after", [0, 1, 12, 300, -1])
def test_replies_that_end_early(lends: Callable[..., Lender], wanted: list[bytes], after: int) -> None:
    def cut(number: int, reply: Reply) -> None:
        if number in (0, 2):
            reply.ends_after = after

    lend = lends(cut)
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        assert [bytes(epoch.batch(n).data) for n in (3, 4)] == [wanted[3], wanted[4]]
        assert not [head for head in lend.asked if b"\r\nRange" in head]  # a table alone is not a part of the body


def test_other_bytes_than_the_checksum(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    lend = lends()

    def spoil(number: int, reply: Reply) -> None:
        if number < 2:
            lend.memory[int(reply.said["segment"])][40] ^= 1

    lend._lie = spoil
    with millrace.Client(lend.url, routing=Routing(check="always")) as client:
        assert bytes(client.epoch(0).batch(3).data) == wanted[3]
        lend._lie = lambda _, reply: spoil(0, reply)
        with pytest.raises(millrace.errors.IntegrityError, match="CRC-32C"):
            client.epoch(0).batch(4)


def test_what_a_reader_does_not_know_is_ignored(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    more = ', note="a, (b) \\" c=d";x="1, 2", list=("a, b" 2);y, *flag;z=1 , rate=1.5, when=@1659578233, raw=:AAA=:'
    with millrace.Client(lends(lambda _, r: r.said.update({"gone": "()" + more})).url) as client:
        assert [bytes(b.data) for b in client.epoch(0)] == wanted


def test_memory_is_lent_again_only_when_nobody_looks(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    lend = lends(spare=1 << 16)
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        kept = epoch.batch(0)
        view = epoch.batch(1).views()[3]  # the batch itself has been freed
        for _ in range(7):
            for number in range(2, 16):
                assert bytes(epoch.batch(number).data) == wanted[number]
        assert bytes(kept.data) == wanted[0]
        assert bytes(view) == wanted[1][: len(wanted[1])][view_bounds(epoch, 1, 3)]
        assert not {0, 1} & set(lend.released)
        assert mapped() <= 4  # the same segments are reused
        del kept, view
        epoch.batch(2)
        assert {0, 1} <= set(lend.released)
    assert mapped() == 0


def view_bounds(epoch: millrace.Epoch, batch: int, sample: int) -> slice:
    bounds = epoch.batch(batch).table.bounds
    return slice(bounds[sample], bounds[sample + 1])


def test_a_gateway_that_lends_what_is_held_is_refused(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    def again(number: int, reply: Reply) -> None:
        if number:
            for d in reply.descriptors:
                os.close(d)
            reply.descriptors[:] = []
            reply.said.update(segment="0", size=str(len(lend.memory[0])))
            reply.said.pop("descriptor", None)

    lend = lends(again, spare=1 << 20)
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        kept = epoch.batch(0)
        with pytest.raises(millrace.errors.ProtocolError, match="Millrace-Shared"):
            epoch.batch(1)
        assert bytes(kept.data) == wanted[0]


def test_memory_that_is_gone_stays_for_its_views(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    def gone(number: int, reply: Reply) -> None:
        if number == 1:
            reply.said["gone"] = "(0 99)"

    with millrace.Client(lends(gone).url) as client:
        epoch = client.epoch(0)
        kept = epoch.batch(0)
        other = epoch.batch(1)
        assert (bytes(kept.data), bytes(other.data)) == (wanted[0], wanted[1])
        assert mapped() == 2
        del kept
        assert mapped() == 1  # without delay, since no further batch arrives in it


def test_a_process_that_forks_makes_new_connections(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    lend = lends()
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        kept = [epoch.batch(n) for n in range(3)]
        before = lend.connections
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        kept += [epoch.batch(n) for n in range(3, 6)]
        assert [bytes(b.data) for b in kept] == wanted[:6]
        assert lend.connections > before
        assert len([head for head in lend.asked if harness.is_batch(head)]) == 6  # no request failed and was repeated


def test_descriptors_beside_bytes_are_closed(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    """The gateway sends descriptors with a batch that arrives as bytes."""
    lend = lends()

    def as_bytes(_: int, reply: Reply) -> None:
        data = lend.memory[-1][: int(reply.said["length"])]
        body, head = reply.table + data, reply.head
        reply.sent = lambda: head + b"\r\n\r\n" + body  # type: ignore[method-assign]

    lend._lie = as_bytes
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        batch = epoch.batch(3)
        assert bytes(batch.data) == wanted[3]
        assert not batch.data.readonly
        assert mapped() == 0
        assert client.describe()["transport"].startswith("bytes: ")


def test_close(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    lend = lends()
    with millrace.Client(lend.url) as client:
        epoch = client.epoch(0)
        batch = epoch.batch(0)
        for look in (lambda: batch.views(), lambda: batch.data, lambda: memoryview(batch.data), lambda: batch[2].parts):
            left = look()
            with pytest.raises(BufferError, match="batch 0 of epoch 0"):
                batch.close()
            assert bytes(batch.data) == wanted[0]
            assert len(batch["jpg"]) == 32
            del left
        assert not batch.closed
        batch.close()
        batch.close()
        assert batch.closed
        assert (len(batch), batch.number) == (32, 0)
        assert "closed" in repr(batch)
        with pytest.raises(ValueError, match="released"):
            batch.data[0]
        with pytest.raises(millrace.InvalidArgument, match="is closed"):
            batch.views()
        with epoch.batch(1) as other:
            assert bytes(other.data) == wanted[1]
        assert set(lend.released) == {0}
        with pytest.raises(KeyError), epoch.batch(2) as third:  # a frame of the exception may hold a view
            _ = third.views(), third["nothing"]
        assert set(lend.released) == {0, 1}


def test_close_over_tcp(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client, client.epoch(0).batch(0) as batch:
        view = batch.data[:4]
        want = bytes(view)
        batch.close()
        assert (bytes(view), batch.closed) == (want, True)


def test_a_closed_client_leaves_nothing_lent(lends: Callable[..., Lender], wanted: list[bytes]) -> None:
    lend = lends()
    client = millrace.Client(lend.url)
    kept = list(client.epoch(0))
    assert mapped() == 16
    client.close()
    assert [bytes(b.data) for b in kept] == wanted
    del kept[1:]
    assert mapped() == 1
    del kept
    assert mapped() == 0


def test_who_does_not_want_memory(lends: Callable[..., Lender], gateway: harness.Gateway, wanted: list[bytes]) -> None:
    lend = lends()
    with millrace.Client(lend.url, routing=Routing(shared_memory=False)) as client:
        assert [bytes(b.data) for b in client.epoch(0)] == wanted
        assert not [head for head in lend.asked if b"vnd.millrace.shared" in head]
        assert client.describe()["transport"] == "bytes: Routing(shared_memory=False)"
    with millrace.Client(gateway.url) as client:
        assert client.describe()["transport"] == "bytes: the gateway is not at a Unix socket"


def test_sockets_that_others_can_have_put_there(place: Path) -> None:
    at = place / "socket"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(at))
        assert parse(f"unix:{at}").here() == (socket.AF_UNIX, str(at))
        assert parse(f"unix:{place / 'later'}").here() is not None  # the socket does not exist yet
        (place / "link").symlink_to(at)
        (place / "file").touch()
        for name, kind in (("link", "a symbolic link"), ("file", "-rw")):
            with pytest.raises(millrace.InvalidArgument, match=f"{name}: no socket but {kind}"):
                parse(f"unix:{place / name}").here()
        if os.geteuid() != 0:
            pytest.skip("only root can give a socket to another user")
        os.chown(at, 1234, -1)
        place.chmod(0o1777)
        with millrace.Client(f"unix:{at}") as client, pytest.raises(millrace.InvalidArgument, match=r"socket: .* user 1234, in a directory"):
            client.describe()
        place.chmod(0o755)
        assert parse(f"unix:{at}").here() is not None


def test_the_probe(tmp_path: Path) -> None:
    from millrace._http.shm import SUPPORTED
    from millrace._process import is_free

    assert SUPPORTED
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    with path.open("rb") as f:
        memory = mmap.mmap(f.fileno(), 100, access=mmap.ACCESS_READ)
    view = memoryview(memory)[10:]
    part = view[1:2]
    del view
    assert not is_free(memory)
    del part
    assert is_free(memory)
