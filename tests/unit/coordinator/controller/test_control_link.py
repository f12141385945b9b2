"""Control links over real ZeroMQ sockets: who is asked, who answers, and what strangers send."""

from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from cluster.coordinator.controller.control_link import ControlLink, Message, Reply
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_link import Dealer, Router, ZmqContext
from tests.support.turning import turn_until

LONG_MS = 60_000


class Stage:
    """One link, and what it was asked; it answers with what it was sent."""

    def __init__(self) -> None:
        self.context = ZmqContext()
        self.loop = EventLoop(SystemClock())
        self.requests: list[tuple[str, Message]] = []
        self.link = ControlLink(self.context, self.loop, "127.0.0.1", self._on_request)

    def _on_request(self, kind: str, body: Message, reply: Reply) -> None:
        self.requests.append((kind, body))
        reply({"echo": body})

    def close(self) -> None:
        self.link.close()
        self.context.close()
        self.loop.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def ask(stage: Stage, endpoint: str, timeout_ms: int = LONG_MS) -> list[Message | None]:
    answers: list[Message | None] = []
    stage.link.ask(endpoint, "greet", {"n": 1}, answers.append, timeout_ms)
    return answers


def test_a_question_is_answered(stage: Stage) -> None:
    answers = ask(stage, stage.link.endpoint)

    turn_until(stage.loop, lambda: answers, "the answer")

    assert stage.requests == [("greet", {"n": 1})]
    assert answers == [{"echo": {"n": 1}}]


MALFORMED: list[Any] = [
    b"",
    b"\xc1",
    b"\x81\x90\x01",  # a map whose key is a list
    msgpack.packb([1, 2]),
    msgpack.packb({"kind": "greet", "body": {}}),
    msgpack.packb({"kind": ["greet"], "id": 1, "body": {}}),
    msgpack.packb({"kind": 5, "id": 1, "body": {}}),
    msgpack.packb({"kind": "greet", "id": 1, "body": [1]}),
    msgpack.packb({"kind": "greet", "id": [1], "body": {}}),
    msgpack.packb({"id": 1, "body": {}}),
]


@pytest.mark.parametrize("content", MALFORMED)
def test_what_is_no_request_is_ignored(stage: Stage, content: bytes) -> None:
    stranger = Dealer(stage.context, stage.loop, stage.link.endpoint, lambda frames: None)
    stranger.send([content])
    stranger.send([msgpack.packb({"kind": "afterwards", "id": 2})])

    turn_until(stage.loop, lambda: stage.requests, "the message behind it")

    assert stage.requests == [("afterwards", {})]
    stranger.close()


@pytest.mark.parametrize(
    "content",
    [*MALFORMED[:4], msgpack.packb({"id": [1], "body": {}}), msgpack.packb({"id": 1, "body": [1]})],
)
def test_what_is_no_reply_is_ignored(stage: Stage, content: bytes) -> None:
    def on_message(identity: bytes, frames: list[bytes]) -> None:
        request_id = msgpack.unpackb(frames[0])["id"]
        stranger.send(identity, [content])
        stranger.send(identity, [msgpack.packb({"id": request_id, "body": {"afterwards": 1}})])

    stranger = Router(stage.context, stage.loop, "127.0.0.1", on_message)
    answers = ask(stage, stranger.endpoint)

    turn_until(stage.loop, lambda: answers, "the answer behind it")

    assert answers == [{"afterwards": 1}]
    stranger.close()


def test_nobody_answers_for_an_endpoint_that_is_none(stage: Stage) -> None:
    answers = ask(stage, "garbage", timeout_ms=1)

    turn_until(stage.loop, lambda: answers, "the timeout")

    assert answers == [None]


def test_what_was_asked_of_a_broker_that_is_gone_has_no_answer(stage: Stage) -> None:
    silent = Router(stage.context, stage.loop, "127.0.0.1", lambda identity, frames: None)
    answers = ask(stage, silent.endpoint)

    stage.link.forget_all_but({stage.link.endpoint})

    assert answers == [None]
    silent.close()
