"""What `quotas client-check` makes of what passes between a client and the broker."""

import json
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.model.quota_pauses import Pauses
from cluster.protocol.api import ApiKey
from cluster.protocol.fetch_codec import pack_fetch_response
from cluster.protocol.produce_codec import ProducedPartition, pack_produce_response
from cluster.tools.main import main
from cluster.tools.quotas.client_check import (
    MARKDOWN_HEADING,
    CheckRun,
    filled,
    lines,
    markdown_rows,
    to_json,
)
from cluster.tools.quotas.pause_watch import Finding, PauseWatch
from cluster.tools.quotas.proxied_frames import Frame, FrameCutter, throttle_ms_of

PRODUCE, FETCH, METADATA = int(ApiKey.PRODUCE), int(ApiKey.FETCH), int(ApiKey.METADATA)


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=60), max_size=8),
    st.lists(st.integers(1, 40), min_size=1),
    st.booleans(),
)
def test_frames_are_the_same_however_the_stream_is_cut(frames, cuts, at_head):
    frames = [frame for frame in frames if frame]
    stream = b"".join(map(sized, frames))
    cutter = FrameCutter(at_head=at_head)
    told: list[Frame] = []
    position = 0
    while position < len(stream):
        step = cuts[len(told) % len(cuts)]
        told += cutter.feed(stream[position : position + step])
        position += step
    assert [(each.size_bytes, each.head) for each in told] == [(len(f), f[:16]) for f in frames]
    if not at_head:
        assert [each.tail for each in told] == [frame[-8:] for frame in frames]


def test_a_frame_with_a_negative_size_is_refused():
    with pytest.raises(PeerError, match="a frame of -1 bytes"):
        list(FrameCutter(at_head=True).feed(b"\xff\xff\xff\xff"))


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("partitions", [1, 2])
def test_the_throttle_time_of_a_produce_answer(version, partitions):
    results = [ProducedPartition(number, 0, 5) for number in range(partitions)]
    answer = pack_produce_response(version, 7, [("t", UUID(int=9), results)], 1_234)
    (frame,) = FrameCutter(at_head=False).feed(answer)
    assert throttle_ms_of(PRODUCE, version, frame) == 1_234


@pytest.mark.parametrize("version", range(4, 19))
def test_the_throttle_time_of_a_fetch_answer(version):
    items: list[Any] = pack_fetch_response(version, 7, [], throttle_time_ms=1_234)
    (frame,) = FrameCutter(at_head=False).feed(b"".join(items))
    assert throttle_ms_of(FETCH, version, frame) == 1_234


class Run:
    """One connection, in whose name a test speaks."""

    def __init__(self) -> None:
        self.watch = PauseWatch()
        self.watch.on_connected(1)
        self._sent = 0
        self._answered = 0

    def request(self, now_ms: float, api_key: int = PRODUCE) -> None:
        self._sent += 1
        self.watch.on_request(1, api_key, self._sent, 1_000, now_ms)

    def answer(self, now_ms: float, throttle_ms: int) -> None:
        self._answered += 1
        self.watch.on_answer(1, self._answered, throttle_ms, 50, now_ms)

    def finding(self) -> Finding:
        (finding,) = self.watch.findings()
        return finding


def test_a_client_that_pauses():
    run = Run()
    for turn in range(5):
        run.request(110.0 * turn)
        run.answer(110.0 * turn + 5, 100)
    found = run.finding()
    assert found.word == "pauses"
    assert found.behavior == Pauses(4, 0, 1, 0)
    assert (found.asked_median_ms, found.kept_median_ms) == (100, 105.0)
    assert found.verdict().startswith("it pauses: 4 of 4 pauses were as long as asked")
    assert (found.bytes, found.throttled, found.asked_ms, found.ahead_max) == (5_000, 5, 500, 0)


def test_a_client_that_goes_on_sending():
    run = Run()
    run.request(0)
    for turn in range(5):
        run.answer(100.0 * turn, 100)
        run.request(100.0 * turn + 1)
        run.watch.on_request(1, METADATA, 1_000 + turn, 10, 100.0 * turn + 2)  # no produce request
    found = run.finding()
    assert found.word == "does not pause"
    assert found.behavior == Pauses(0, 5, 1, 1)
    assert "kept 1 ms" in found.verdict()


def test_a_client_that_sends_everything_ahead_is_not_accused_of_not_pausing():
    run = Run()
    for _ in range(20):
        run.request(0)
    for turn in range(20):
        run.answer(100.0 * turn, 100)
    found = run.finding()
    assert (found.word, found.ahead_max) == ("sends ahead", 19)
    assert found.verdict().startswith("it sends requests ahead: up to 19 were on their way")


def test_a_client_that_sends_ahead_and_pauses():
    run = Run()
    for turn in range(4):
        begin_ms = 250.0 * turn
        run.request(begin_ms)
        run.request(begin_ms)
        run.answer(begin_ms + 1, 100)
        run.answer(begin_ms + 101, 100)
    found = run.finding()
    assert found.word == "pauses"
    assert "it sends requests ahead, up to 1 were on their way" in found.verdict()


def test_too_little_to_tell_and_nothing_throttled():
    run = Run()
    run.request(0)
    run.answer(1, 0)
    assert run.finding().word == "not throttled"
    run.request(2)
    run.answer(3, 100)
    run.request(200)
    run.answer(201, 5)  # too short to judge
    run.request(202)
    assert run.finding().word == "too little to tell"
    assert run.finding().behavior == Pauses(1, 0, 1, 0)


def test_a_connection_that_is_given_up_while_it_waits():
    run = Run()
    run.request(0)
    run.answer(1, 1_000)
    run.watch.on_disconnected(1, 1, by_client=True)
    assert run.watch.given_up(9_000) == 0  # it waited for nothing
    run.watch.on_connected(1)
    run.request(2)
    run.watch.on_disconnected(1, 5_000, by_client=True)
    assert run.watch.given_up(9_000) == 1
    assert run.watch.given_up(5_100) == 0  # the client came to its end


def test_requests_without_answers_are_not_kept_for_ever():
    watch = PauseWatch()
    watch.on_connected(1)
    for number in range(100_002):
        watch.on_request(1, PRODUCE, number, 10, 0.0)
    assert watch.answer_kind(1, 0) is None
    assert watch.answer_kind(1, 100_001) == PRODUCE


def an_outcome(status: int | None = 0, given_up: int = 0) -> CheckRun:
    run = Run()
    for turn in range(5):
        run.request(1_100.0 * turn)
        run.answer(1_100.0 * turn + 5, 1_000)
    return CheckRun((run.finding(),), 1_000.0, status, given_up, "sarama 1.46.0")


def test_outcome_as_text():
    software, verdict, cost, end = lines(an_outcome())
    assert software == "software: sarama 1.46.0"
    assert verdict.startswith("produce: it pauses: 4 of 4")
    assert cost.strip().startswith("4.88 KiB in 4.4 s: 1.11 KiB/s where the limit is 1,000 B/s;")
    assert end == "it recovers: it kept its connections; it ended with status 0"
    assert lines(an_outcome(3))[-1] == "it kept its connections, but it ended with status 3"
    ended = lines(an_outcome(None, 2))[-1]
    assert ended == "it does not recover: it gave up 2 connections; it was ended after --timeout"


def test_rows_fit_the_heading_and_json_has_all_figures():
    (row,) = markdown_rows("sarama", an_outcome())
    assert row == "| sarama | sarama 1.46.0 | produce | pauses | 1.0 s, 1.1 s | 0 | yes | 114 % |"
    assert row.count("|") == MARKDOWN_HEADING.splitlines()[0].count("|")
    told = json.loads(json.dumps(to_json(an_outcome())))
    assert told["software"] == "sarama 1.46.0"
    (found,) = told["requests"]
    assert (found["kind"], found["verdict"], found["throttled"]) == ("produce", "pauses", 5)
    assert found["pauses"]["honours_throttling"] is True


def test_only_the_two_places_of_a_command_are_filled_in():
    places = {"bootstrap": "h:1", "topic": "t"}
    words = ["run", "--at={bootstrap}", "{topic}", "${HOME}", "{}"]
    assert filled(words, places) == ["run", "--at=h:1", "t", "${HOME}", "{}"]


def test_a_command_is_wanted(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["quotas", "client-check"])
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
