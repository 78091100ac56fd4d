"""One generation for all ranks of a job, while gateways move to newer ones."""

from __future__ import annotations

import json
from collections.abc import Callable

import harness
import pytest

import millrace
from millrace import Order, Routing, Share


def test_a_rank_without_a_generation_is_refused(moving: harness.Moving, gateway: harness.Gateway) -> None:
    with millrace.Client(moving.url, "photos") as client:
        with pytest.raises(millrace.InvalidArgument, match=rf"rank 1 of 4 names no generation.*now it is {moving.older}") as e:
            client.epoch(0, share=Share(rank=1, world_size=4))
        assert "rank 0 asks client.describe()['generation']" in str(e.value)
        assert len(moving.heads) == 1  # the request for the description is the only one
        present = Order(generation=client.describe()["generation"])
        assert client.epoch(0, order=present, share=Share(rank=1, world_size=4)).batch(0).generation == moving.older
        # a single client has no other ranks to agree with
        assert client.epoch(0).batch(0).generation == moving.older
    with millrace.Client(gateway.url, "photos") as client:
        assert client.epoch(0, share=Share(rank=1, world_size=4)).batch(0).generation == moving.older  # this epoch keeps its generation


def test_an_epoch_stays_with_its_generation(moving: harness.Moving) -> None:
    """The gateway moves between the responses to two ranks, and between two batches of one rank."""
    with millrace.Client(moving.url, "photos") as client:
        generation = client.describe()["generation"]
        epochs = []
        for rank in range(2):
            epochs.append(client.epoch(4, order=Order(generation=generation), share=Share(rank=rank, world_size=2)))
            moving.move()
        moving.move(moving.older)
        epochs.append(client.epoch(4))
        books = [millrace.Ledger() for _ in epochs]
        for epoch, book in zip(epochs, books):
            moving.move(moving.older)
            with epoch.read(ledger=book) as reader:
                for batch in reader:
                    moving.move()
                    assert batch.generation == moving.older
        books[0].check(books[1])
        books[2].check()
        assert client.describe()["generation"] == moving.newer
        assert client.epoch(4).plan.samples == 540


def refuse(code: str, said: str) -> bytes:
    body = json.dumps({"code": code, "detail": said, "status": 404, "retryable": False}).encode()
    head = f"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


Through = Callable[[harness.Fault], harness.Proxy]


@pytest.mark.parametrize("codes", [("generation_gone", "not_found"), ("not_found", "generation_gone")])
def test_a_generation_that_is_gone_is_final(through: Through, codes: tuple[str, str]) -> None:
    def answer(code: str) -> harness.Fault:
        return lambda _, head, answer: answer if b"/readyz" in head or b"/datasets/photos HTTP" in head else refuse(code, "not kept")

    proxies = [through(answer(code)) for code in codes]
    with millrace.Client([p.url for p in proxies], "photos", routing=Routing(home=lambda *_: 0)) as client:
        with pytest.raises(millrace.errors.GenerationGone, match="begin a new job without generation=") as e:
            client.epoch(0, order=Order(generation="5" * 64))
        assert not e.value.retryable
        assert [len(p.asked(b"/epochs/")) for p in proxies] == [1, 1]


def test_a_generation_that_another_gateway_has_open(through: Through, gateway: harness.Gateway) -> None:
    lost = through(lambda _, head, answer: answer if b"generation=" not in head else refuse("generation_gone", "not kept"))
    with millrace.Client([lost.url, gateway.url], "photos", routing=Routing(home=lambda *_: 0)) as client:
        generation = client.describe()["generation"]
        assert client.epoch(0, order=Order(generation=generation)).batch(0).generation == generation
    assert len(lost.asked(b"/epochs/")) == 1


def test_the_cure_is_said_once(through: Through) -> None:
    said = "generation 5 is not kept any more: begin a new job without generation=, or restore its index and shards"
    proxy = through(lambda _, head, answer: answer if b"/epochs/" not in head else refuse("generation_gone", said))
    with millrace.Client(proxy.url, "photos") as client, pytest.raises(millrace.errors.GenerationGone) as e:
        client.epoch(0, order=Order(generation="5" * 64))
    assert str(e.value).count("begin a new job") == 1
