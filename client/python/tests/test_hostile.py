"""Faults of proxies, strangers and callers: truncated, changed and early responses, odd parameters, functions that misbehave."""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
from collections.abc import Callable

import harness
import pytest
from harness import Fault, is_batch

import millrace
from millrace import Reading, Routing


def read_all(client: millrace.Client, **options: object) -> int:
    epoch = client.epoch(0, **harness.grouped(**options))  # type: ignore[arg-type]
    ledger = millrace.Ledger()
    with epoch.read(ledger=ledger) as reader:
        samples = sum(map(len, reader))
    ledger.check()
    return samples


def changed(answer: bytes, was: bytes, becomes: bytes) -> bytes:
    """The response with another body, and with its length."""
    head, _, body = answer.partition(b"\r\n\r\n")
    body = re.sub(was, becomes, body)
    return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head) + b"\r\n\r\n" + body


def test_interim_answers(through: Callable[[Fault], harness.Proxy]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
    with millrace.Client(through(lambda _, __, answer: early * 2 + answer).url) as client:
        assert read_all(client) == 500
    # Silence until the deadline does not hide the earlier fault.
    with millrace.Client(through(lambda number, *_: None if number else early * 99).url, deadline=3) as client, pytest.raises(
        millrace.GatewayUnavailable, match="interim"
    ):
        client.epoch(0)


@pytest.mark.parametrize("at", [0, 1, 12, 50, 200, 400, -1])
def test_cut_anywhere(through: Callable[[Fault], harness.Proxy], at: int) -> None:
    # Two of three responses break: in the status line, the headers or the body, of descriptions and of batches.
    seen: dict[bytes, int] = {}

    def cut(_: int, head: bytes, answer: bytes) -> bytes:
        line = head.split(b"\r\n", 1)[0]
        seen[line] = seen.get(line, 0) + 1
        return answer[:at] if seen[line] <= 5 else answer

    with millrace.Client(through(cut).url) as client:
        epoch = client.epoch(0)
        assert [len(epoch.batch(number)) for number in (0, 15)] == [32, 20]


def test_cut_at_random(through: Callable[[Fault], harness.Proxy]) -> None:
    r = random.Random(3)
    proxy = through(lambda number, _, answer: answer[: r.randrange(len(answer))] if number % 2 else answer)
    with millrace.Client(proxy.url, routing=Routing(check="always")) as client:
        assert read_all(client) == 500


def test_a_wrong_length_once(through: Callable[[Fault], harness.Proxy]) -> None:
    def wrong(number: int, head: bytes, answer: bytes) -> bytes:
        by = (-5, 5)[number // 3 % 2]
        if not is_batch(head) or number % 3:
            return answer
        return re.sub(rb"Content-Length: (\d+)", lambda m: b"Content-Length: %d" % (int(m[1]) + by), answer)

    with millrace.Client(through(wrong).url, routing=Routing(check="never")) as client:
        assert read_all(client, threads=2) == 500


def test_the_rest_of_other_bytes(through: Callable[[Fault], harness.Proxy]) -> None:
    whole = [0]

    def wrong(_: int, head: bytes, answer: bytes) -> bytes:
        if not is_batch(head):
            return answer
        if b"If-Range" in head:
            return re.sub(rb'ETag: "[^"]*"', b'ETag: "other"', answer, flags=re.IGNORECASE)
        whole[0] += 1
        return answer[: len(answer) // 2] if whole[0] % 2 else answer

    proxy = through(wrong)
    with millrace.Client(proxy.url, routing=Routing(check="always")) as client:
        assert len(client.epoch(0).batch(3)) == 32
        assert len(client.epoch(0).batch(4)) == 32
    assert proxy.asked(b"If-Range")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (rb".+", b'{"datasets": [1, 2]}'),
        (rb".+", b'{"datasets": [{"default": true}]}'),
        (rb".+", b"[" * 200_000),
        (rb'"batches":\d+', b'"batches":-5'),
        (rb'"batches":\d+', b'"batches":' + b"9" * 30),
        (rb'"samples":\d+', b'"samples":1e999'),
        (rb"batch_size=\d+", b"batch_size=x"),
        (rb"batch_size=\d+", b"batch_size=0"),
        (rb'"links":\{', b'"links":5,"l":{'),
    ],
)
def test_descriptions_that_are_none(through: Callable[[Fault], harness.Proxy], was: bytes, becomes: bytes) -> None:
    proxy = through(lambda _, __, answer: changed(answer, was, becomes))
    with millrace.Client(proxy.url) as client, pytest.raises(millrace.errors.ProtocolError):
        client.epoch(0)


def test_control_characters_stay_out_of_texts(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda *_: b"\x1b[2J\x07\r\n\r\n")
    with millrace.Client(proxy.url, deadline=0.3) as client, pytest.raises(millrace.GatewayUnavailable) as e:
        client.epoch(0)
    assert str(e.value).isprintable()


def test_headers_that_are_none(gateway: harness.Gateway) -> None:
    for text in ("sec\nret", "sec€ret"):
        with millrace.Client(gateway.url, headers={"X-A": text}) as client, pytest.raises(millrace.InvalidArgument, match="a header has") as e:
            client.epoch(0)
        assert "sec" not in str(e.value)
    for url in ("http://gw/a b", "http://gw/ä", "http://ä..x:1"):
        with pytest.raises(millrace.InvalidArgument, match="want http://host:port"):
            millrace.Client(url)


def test_an_on_error_that_stops(gateway: harness.Gateway) -> None:
    def stops(_: millrace.SampleError) -> None:
        next(iter([]))

    # The failure must not look like the end of the epoch.
    with millrace.Client(gateway.url) as client, pytest.raises(RuntimeError, match="on_error raised StopIteration"):
        list(client.epoch(0, transform=int, reading=Reading(on_error=stops)))


def test_a_reader_in_a_forked_child(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        epoch = client.epoch(0)
        reader = epoch.read()
        assert next(reader).number == 0
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                next(reader)
            except millrace.InvalidArgument as e:
                os.write(into, f"{'belongs to the process' in str(e)} {epoch.batch(1).number}".encode())
            reader.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(out, 100) == b"True 1"
        os.close(out)
        os.close(into)
        assert [b.number for b in reader] == list(range(1, 16))


def test_proxies_of_the_environment(through: Callable[[Fault], harness.Proxy], monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = through(lambda _, __, answer: answer)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for i, (named, text) in enumerate([
        (proxy.url.replace("//", "//me:p%40ss@"), ""),
        ("http://127.0.0.1:1", "no_proxy leaves gateways out"),
        ("socks5://127.0.0.1:1", "want http://host:port"),
        ("https://127.0.0.1:1", "not reached by http://"),
        ("http://127.0.0.1:notaport", "want http://host:port"),
    ]):
        monkeypatch.setenv("http_proxy", named)
        with millrace.Client(f"http://192.0.2.{i}:80", "photos", deadline=0.3 if text else 60) as client:
            if text:
                with pytest.raises(millrace.MillraceError, match=text):
                    client.epoch(0)
            else:
                assert len(client.epoch(0).batch(0)) == 32
    assert proxy.heads == proxy.asked(b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n")
    assert all(b" http://192.0.2.0:80/v1/" in h for h in proxy.heads)


def test_a_batch_is_not_pickled(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        batch = client.epoch(0).batch(0)
        for what in (batch, batch[0]):
            with pytest.raises(TypeError, match=r"bytes\(batch.data\)"):
                pickle.dumps(what)
