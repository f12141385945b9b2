"""Control links over real ZeroMQ sockets: requests, answers, and messages of strangers."""

from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerEpoch, BrokerId
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.control import (
    Acknowledged,
    AlterPartition,
    AlterTopicConfigs,
    ClusterUpdate,
    ControlledShutdown,
    CreateTopics,
    Refusal,
    Request,
    ShutdownPrepared,
)
from cluster.protocol.peer.replication import FollowerFetch
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_link import Dealer, Router, ZmqContext
from tests.support.turning import turn_until

LONG_MS = 60_000
QUESTION = ControlledShutdown(BrokerId(3), BrokerEpoch(7))
DONE = ShutdownPrepared(True)
A_FETCH = FollowerFetch(1, "here", 1, 0, [], [], 0, 0, False)


class Stage:
    """One link and the requests that it received; it answers that it has processed them."""

    def __init__(self) -> None:
        self.context = ZmqContext()
        self.loop = EventLoop(SystemClock())
        self.requests: list[Request[Any]] = []
        self.link = ControlLink(self.context, self.loop, "127.0.0.1")
        for served in (CreateTopics, ControlledShutdown, AlterPartition, ClusterUpdate):
            self.link.serve(served, self._on_request)

    def _on_request(self, request: Request[Any], reply: Reply) -> None:
        self.requests.append(request)
        reply(DONE)

    def close(self) -> None:
        self.link.close()
        self.context.close()
        self.loop.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def test_a_request_without_handler_is_refused(stage: Stage) -> None:
    answers: list[Any] = []

    stage.link.ask(stage.link.endpoint, AlterTopicConfigs([], False), answers.append, LONG_MS)
    turn_until(stage.loop, lambda: answers, "the refusal")

    (refusal,) = answers
    assert refusal.code is ErrorCode.invalid_request
    assert "AlterTopicConfigs" in refusal.reason


def ask(stage: Stage, endpoint: str, timeout_ms: int = LONG_MS) -> list[Any]:
    answers: list[Any] = []
    stage.link.ask(endpoint, QUESTION, answers.append, timeout_ms)
    return answers


def framed(request_id: int, message: object) -> list[Any]:
    return [request_id.to_bytes(8, "big"), *encode(message)]


def test_a_question_is_answered(stage: Stage) -> None:
    answers = ask(stage, stage.link.endpoint)

    turn_until(stage.loop, lambda: answers, "the answer")

    assert stage.requests == [QUESTION]
    assert answers == [DONE]


@pytest.mark.parametrize("frames", [[b""], [b"7 bytes"], [b"nine bytes"], encode(QUESTION)])
def test_a_message_without_id_is_ignored(stage: Stage, frames: list[bytes]) -> None:
    stranger = Dealer(stage.context, stage.loop, stage.link.endpoint, lambda frames: None)
    stranger.send(frames)
    stranger.send(framed(2, QUESTION))

    turn_until(stage.loop, lambda: stage.requests, "the message behind it")

    assert stage.requests == [QUESTION]
    stranger.close()


MALFORMED: list[list[bytes]] = [
    [],
    [b""],
    [b"\xc1"],
    [b"\x81\x90\x01"],  # a map whose key is a list
    [b"\x91" * 5_000 + b"\xc0"],
    [msgpack.packb({"controlled-shutdown": [1, 1]})],
    [msgpack.packb(["controlled-shutdown"])],
    [msgpack.packb(["no such kind", []])],
    [msgpack.packb([["controlled-shutdown"], [1, 1]])],
    [msgpack.packb(["controlled-shutdown", {}])],
    [msgpack.packb(["controlled-shutdown", [1]])],
    [msgpack.packb(["controlled-shutdown", [[1], 1]])],
    [msgpack.packb(["controlled-shutdown", [True, 1]])],
    [msgpack.packb(["controlled-shutdown", [-1, 1]])],
    [*encode(QUESTION), b"another frame"],  # type: ignore[list-item]
    encode(DONE),  # type: ignore[list-item]
    encode(A_FETCH),  # type: ignore[list-item]
]


@pytest.mark.parametrize("frames", MALFORMED)
def test_a_malformed_request_is_refused(
    stage: Stage, frames: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[list[bytes]] = []
    stranger = Dealer(stage.context, stage.loop, stage.link.endpoint, answers.append)
    stranger.send([(5).to_bytes(8, "big"), *frames])

    turn_until(stage.loop, lambda: answers, "the refusal")

    ((request_id, *answer),) = answers
    refusal = decode(answer)
    assert request_id == (5).to_bytes(8, "big")
    assert refusal.code is ErrorCode.invalid_request
    assert stage.requests == []
    (record,) = caplog.records
    assert refusal.reason in record.getMessage()
    assert len(record.getMessage()) < 400
    stranger.close()


@pytest.mark.parametrize(
    "frames",
    [*MALFORMED[:6], encode(QUESTION), encode(Acknowledged(ErrorCode.none)), encode(A_FETCH)],
)
def test_an_answer_of_another_class_is_ignored(stage: Stage, frames: list[Any]) -> None:
    def on_message(identity: bytes, asked: list[bytes]) -> None:
        stranger.send(identity, [b"short", *encode(DONE)])
        stranger.send(identity, framed(77, DONE))  # to a request that was never sent
        stranger.send(identity, [asked[0], *frames])
        stranger.send(identity, [asked[0], *encode(DONE)])

    stranger = Router(stage.context, stage.loop, "127.0.0.1", on_message)
    answers = ask(stage, stranger.endpoint)

    turn_until(stage.loop, lambda: answers, "the answer behind it")

    assert answers == [DONE]
    stranger.close()


def test_a_refusal_completes_the_request(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    refusal = Refusal(ErrorCode.invalid_request, "forged\nline" + 1_000 * "x")

    def on_message(identity: bytes, asked: list[bytes]) -> None:
        router.send(identity, [asked[0], *encode(refusal)])

    router = Router(stage.context, stage.loop, "127.0.0.1", on_message)
    answers: list[Any] = []
    stage.link.ask(router.endpoint, CreateTopics(["t"], None), answers.append, LONG_MS)

    turn_until(stage.loop, lambda: answers, "the refusal")

    assert answers == [refusal]
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 400
    router.close()


def test_an_invalid_endpoint_gives_no_answer(stage: Stage) -> None:
    answers = ask(stage, "garbage", timeout_ms=1)

    turn_until(stage.loop, lambda: answers, "the timeout")

    assert answers == [None]


def test_requests_to_a_forgotten_broker_get_no_answer(stage: Stage) -> None:
    silent = Router(stage.context, stage.loop, "127.0.0.1", lambda identity, frames: None)
    answers = ask(stage, silent.endpoint)

    stage.link.forget_all_but({stage.link.endpoint})

    assert answers == [None]
    silent.close()
