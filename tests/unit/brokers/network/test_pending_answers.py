"""A channel that hands over requests while earlier ones wait for their answers."""

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.network.channel import Channel
from cluster.brokers.network.connection import MuteReason
from cluster.brokers.network.pending_answers import (
    PENDING_MAX,
    PENDING_MAX_OF_ALL,
    QueuedAnswer,
)
from cluster.model.errors import PeerError
from tests.support.channel_stage import AHEAD, ChannelStage, framed
from tests.support.examples import examples

PARKED, IMMEDIATE, SILENT, THROTTLED, SLOW, OTHER = range(6)
"""What becomes of a request: it is overtaken, answered at once, has no answer, is answered with a
delay, is in progress for a while and then overtaken, or may not go ahead."""


def answer_to(number: int) -> bytes:
    return framed(b"answer %d" % number)


class Pipelined:
    """A channel whose frames are numbers with a fate, and what was handed over of them."""

    def __init__(self) -> None:
        self.stage = ChannelStage()
        self.stage.process = self.process
        self.channel = self.stage.channel
        self.fates: list[int] = []
        self.handed_over: list[int] = []
        self.parked: dict[int, QueuedAnswer] = {}
        self.dropped: list[int] = []
        self.slow: int | None = None
        self.throttled = False

    def send(self, *fates: int) -> None:
        frames = []
        for fate in fates:
            begin = b"no" if fate == OTHER else AHEAD
            frames.append(framed(begin + struct.pack(">i", len(self.fates))))
            self.fates.append(fate)
        self.stage.client.sendall(b"".join(frames))

    def process(self, channel: Channel, frame: bytes) -> None:
        (number,) = struct.unpack(">i", frame[2:])
        fate = self.fates[number]
        assert self.slow is None, "handed over while a request is in progress"
        assert not self.throttled, "handed over while muted"
        assert fate != OTHER or not channel.pending_count, "handed over before it may"
        self.handed_over.append(number)
        if fate == PARKED:
            self.park(number)
        elif fate == SILENT:
            channel.respond(None)
        elif fate == SLOW:
            self.slow = number
        elif fate == THROTTLED:
            self.throttled = True
            channel.after_earlier(lambda: self.throttle(number))
        elif channel.pending_count:
            channel.go_on(1).respond([answer_to(number)])
        else:
            channel.respond([answer_to(number)])

    def park(self, number: int) -> None:
        self.channel.on_close = lambda: self.dropped.append(number)
        self.parked[number] = self.channel.go_on(1)

    def throttle(self, number: int) -> None:
        self.channel.mute(MuteReason.QUOTA)
        self.channel.respond([answer_to(number)])

    def answer(self, number: int) -> None:
        self.parked.pop(number).respond([answer_to(number)])

    def end_slow(self) -> None:
        assert self.slow is not None
        number, self.slow = self.slow, None
        self.park(number)

    def end_throttle(self) -> None:
        if MuteReason.QUOTA & self.channel.mute_reasons:
            self.throttled = False
            self.channel.unmute(MuteReason.QUOTA)

    def answers(self, *numbers: int) -> bytes:
        return b"".join(map(answer_to, numbers))


@pytest.fixture
def pipelined() -> Iterator[Pipelined]:
    one = Pipelined()
    yield one
    one.stage.stop()


OPERATIONS = st.lists(
    st.one_of(
        st.lists(st.integers(PARKED, OTHER), min_size=1, max_size=6).map(
            lambda each: ("send", each)
        ),
        st.tuples(st.just("answer"), st.integers(0, 20)),
        st.sampled_from([("slow", 0), ("unmute", 0), ("turn", 0)]),
    ),
    max_size=40,
)


@examples(300)
@given(operations=OPERATIONS)
def test_answers_leave_once_and_in_order_and_nothing_is_handed_over_early(operations):
    one = Pipelined()
    received = bytearray()
    for name, argument in operations:
        if name == "send":
            one.send(*argument)
        elif name == "answer" and one.parked:
            one.answer(sorted(one.parked)[argument % len(one.parked)])
        elif name == "slow" and one.slow is not None:
            one.end_slow()
        elif name == "unmute":
            one.end_throttle()
        elif name == "turn":
            received += one.stage.drain()
    for _ in range(2 * len(one.fates) + 2):
        one.stage.turn()
        if one.slow is not None:
            one.end_slow()
        for number in sorted(one.parked, reverse=True):
            one.answer(number)
        one.end_throttle()
    received += one.stage.drain()
    answered = [number for number, fate in enumerate(one.fates) if fate != SILENT]
    assert one.handed_over == list(range(len(one.fates)))
    assert bytes(received) == one.answers(*answered)
    assert one.channel.is_open
    assert one.channel.pending_count == one.stage.pending_weight == one.stage.backlog_bytes == 0
    one.stage.channel.close(None)
    assert one.dropped == []
    one.stage.stop()


@examples(100)
@given(operations=OPERATIONS)
def test_a_closed_channel_drops_what_waits(operations):
    one = Pipelined()
    for name, argument in operations:
        if name == "send":
            one.send(*argument)
            one.stage.turn(2)
        elif name == "answer" and one.parked:
            one.answer(sorted(one.parked)[argument % len(one.parked)])
    one.stage.channel.close(None)
    assert sorted(one.dropped) == sorted(one.parked)
    for number in list(one.parked):
        one.answer(number)  # an answer that comes too late is dropped
    assert one.stage.pending_weight == one.stage.backlog_bytes == one.channel.pending_count == 0
    one.stage.stop()


def test_requests_go_on_while_earlier_ones_wait_and_share_one_send(pipelined: Pipelined) -> None:
    sends = []
    pipelined.stage.on_send = lambda: sends.append(1)
    pipelined.send(*[PARKED] * 200)
    pipelined.stage.turn()
    assert pipelined.handed_over == list(range(200))
    for number in range(200):
        pipelined.answer(number)
    assert pipelined.stage.drain() == pipelined.answers(*range(200))
    assert len(sends) == 1


def test_a_given_answer_is_sent_at_once_if_no_other_is_pending(pipelined: Pipelined) -> None:
    pipelined.send(PARKED)
    pipelined.stage.turn()
    pipelined.answer(0)
    assert pipelined.stage.client.recv(100) == answer_to(0)


def test_given_answers_are_sent_at_the_end_of_the_turn_while_others_wait(
    pipelined: Pipelined,
) -> None:
    pipelined.send(PARKED, PARKED, PARKED)
    pipelined.stage.turn()
    pipelined.answer(1)
    assert pipelined.stage.drain() == b""
    pipelined.answer(0)
    pipelined.stage.turn()
    assert pipelined.stage.drain() == pipelined.answers(0, 1)


def test_the_channel_stays_watched_while_answers_are_pending(pipelined: Pipelined) -> None:
    watched = pipelined.stage.loop.watched_count
    for _ in range(3):
        pipelined.send(PARKED)
        pipelined.stage.turn()
        assert pipelined.stage.loop.watched_count == watched


def test_another_kind_of_request_waits_until_no_answer_is_pending(pipelined: Pipelined) -> None:
    pipelined.send(PARKED, PARKED, OTHER, PARKED)
    pipelined.stage.turn(2)
    assert pipelined.handed_over == [0, 1]
    pipelined.send(IMMEDIATE)
    pipelined.answer(0)
    pipelined.stage.turn(2)
    assert pipelined.handed_over == [0, 1]
    pipelined.answer(1)
    pipelined.stage.turn(2)
    assert pipelined.handed_over == [0, 1, 2, 3, 4]
    assert pipelined.stage.drain() == pipelined.answers(0, 1, 2)


def test_a_large_request_of_another_kind_waits_too(pipelined: Pipelined) -> None:
    pipelined.send(PARKED)
    large = framed(b"no" + b"x" * 100_000)
    pipelined.stage.client.sendall(large)
    pipelined.stage.turn(5)
    assert pipelined.stage.buffers_out == 0
    pipelined.stage.process = lambda channel, frame: channel.respond([framed(frame)])
    pipelined.answer(0)
    assert pipelined.stage.drain() == pipelined.answers(0) + large


@pytest.mark.parametrize("cut", [3, 4, 5, 6, 7])
def test_a_request_that_arrives_in_parts_goes_ahead(pipelined: Pipelined, cut: int) -> None:
    pipelined.send(PARKED)
    pipelined.stage.turn()
    pipelined.fates.append(IMMEDIATE)
    frame = framed(AHEAD + struct.pack(">i", 1))
    pipelined.stage.client.sendall(frame[:cut])
    pipelined.stage.turn()
    pipelined.stage.client.sendall(frame[cut:])
    pipelined.stage.turn()
    assert pipelined.handed_over == [0, 1]
    pipelined.answer(0)
    assert pipelined.stage.drain() == pipelined.answers(0, 1)


def test_no_more_answers_are_pending_than_the_limit(pipelined: Pipelined) -> None:
    pipelined.send(*[PARKED] * (PENDING_MAX + 100))
    pipelined.stage.turn(5)
    assert len(pipelined.handed_over) == PENDING_MAX
    pipelined.answer(0)
    pipelined.stage.turn(2)
    assert len(pipelined.handed_over) == PENDING_MAX  # until half of them are given
    for number in range(1, PENDING_MAX // 2):
        pipelined.answer(number)
    pipelined.stage.turn(2)
    assert len(pipelined.handed_over) == PENDING_MAX + 100


def test_an_answer_counts_for_each_of_its_partitions(pipelined: Pipelined) -> None:
    pipelined.stage.process = lambda channel, frame: pipelined.parked.update(
        {len(pipelined.parked): channel.go_on(PENDING_MAX // 2)}
    )
    pipelined.send(*[PARKED] * 5)
    pipelined.stage.turn(3)
    assert len(pipelined.parked) == 2
    assert pipelined.stage.pending_weight == PENDING_MAX


def test_a_connection_has_one_pending_answer_while_all_together_have_too_many(
    pipelined: Pipelined,
) -> None:
    pipelined.stage.pending_weight = PENDING_MAX_OF_ALL
    pipelined.send(PARKED, PARKED, PARKED)
    for number in range(3):
        pipelined.stage.turn(3)
        assert pipelined.handed_over == list(range(number + 1))
        pipelined.answer(number)
    assert pipelined.stage.drain() == pipelined.answers(0, 1, 2)


def test_large_answers_behind_a_pending_one_are_limited(pipelined: Pipelined) -> None:
    large = framed(b"x" * 40_000)
    pipelined.send(PARKED)
    pipelined.stage.turn()
    pipelined.stage.process = lambda channel, frame: channel.go_on(1).respond([large])
    pipelined.send(*[IMMEDIATE] * 10)
    pipelined.stage.turn(5)
    assert len(pipelined.stage.frames) == 3
    pipelined.stage.process = lambda channel, frame: channel.respond([large])
    pipelined.answer(0)
    assert pipelined.stage.drain() == pipelined.answers(0) + 10 * large


def test_a_protocol_error_closes_the_connection_after_the_earlier_answers(
    pipelined: Pipelined,
) -> None:
    pipelined.send(PARKED, PARKED)
    pipelined.stage.turn()

    def refuse(channel: Channel, frame: bytes) -> None:
        raise PeerError("I do not understand")

    pipelined.stage.process = refuse
    pipelined.send(IMMEDIATE, IMMEDIATE)
    pipelined.stage.turn(3)
    assert len(pipelined.stage.frames) == 3
    pipelined.answer(1)
    assert pipelined.channel.is_open
    pipelined.answer(0)
    assert pipelined.stage.closed == ["I do not understand"]
    assert pipelined.stage.client.recv(100) == pipelined.answers(0, 1)


def test_a_client_that_sends_no_more_receives_the_pending_answers(pipelined: Pipelined) -> None:
    pipelined.send(PARKED, PARKED)
    pipelined.stage.client.shutdown(socket.SHUT_WR)
    pipelined.stage.turn(3)
    assert pipelined.channel.is_open
    for number in (0, 1):
        pipelined.answer(number)
    assert pipelined.stage.client.recv(100) == pipelined.answers(0, 1)
    assert pipelined.stage.closed == [None]


def test_a_reset_drops_what_waits(pipelined: Pipelined) -> None:
    pipelined.send(IMMEDIATE, PARKED, PARKED)
    pipelined.stage.turn()
    pipelined.stage.client.close()  # a reset, as it has not read the first answer
    pipelined.stage.turn()
    assert not pipelined.channel.is_open
    assert pipelined.dropped == [1, 2]


def test_memory_of_a_request_is_released_when_it_is_overtaken(pipelined: Pipelined) -> None:
    pipelined.send(SLOW)
    pipelined.stage.turn()
    pipelined.channel.hold(12_345)
    pipelined.end_slow()
    assert pipelined.stage.held_bytes == 0


def test_sent_times_are_noted_when_an_answer_leaves(pipelined: Pipelined) -> None:
    noted: list[str] = []
    pipelined.send(PARKED, PARKED)
    pipelined.stage.turn()
    for number, name in ((0, "first"), (1, "second")):
        pipelined.parked[number].note = lambda _began, _ended, name=name: noted.append(name)
    pipelined.answer(1)
    pipelined.stage.turn()
    assert noted == []
    pipelined.answer(0)
    assert noted == ["first", "second"]
