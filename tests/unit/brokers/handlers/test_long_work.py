"""Produce and ListOffsets with records that take long to decode: others are served meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.network.connection import Connection
from cluster.model.errors import ErrorCode
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import (
    WALL_MS,
    a_batch,
    codes_of,
    list_offsets_of,
    offsets_in,
    produced_in,
)
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to
from tests.support.manual_background import ManualBackground
from tests.support.stored_batches import with_header

ALONE = a_partition([BROKER])
BOTH = a_partition([BROKER, OTHER])
LONG = bytes(300_000)
MAX_TIMESTAMP = -3


def long_batch(
    codec: Compression = Compression.GZIP,
    timestamp_ms: int = WALL_MS,
    producer: ProducerIdentity | None = None,
) -> bytes:
    """A small batch that decompresses to many bytes."""
    records = [NewRecord(LONG, b"k", timestamp_ms)]
    return bytes(build_batch(records, codec=codec, producer=producer or ProducerIdentity()))


@pytest.fixture
def thread() -> ManualBackground:
    return ManualBackground()


@pytest.fixture
def slow(tmp_path: Path, thread: ManualBackground) -> Iterator[HandlerStage]:
    """A broker whose other thread works only when a test tells it to."""
    with HandlerStage(tmp_path / "slow", background=thread.only_for("long-work")) as stage:
        yield stage


def finish(stage: HandlerStage, thread: ManualBackground) -> None:
    """Let the other thread finish its work."""
    while thread.do_one():
        stage.turn()


def values_in(stage: HandlerStage) -> list[bytes]:
    log = stage.partition("t").log
    end = log.log_end_offset
    if not end:
        return []
    part = log.read(log.log_start_offset, 1 << 20, upper_offset=end, at_least_one_batch=True)
    return [record.value or b"" for record in read_records(part.view())]


# -- Produce ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_large_compressed_batch_is_checked_while_others_are_served(
    slow: HandlerStage, thread: ManualBackground, codec: Compression
) -> None:
    slow.update(a_topic("t", ALONE))
    client = slow.connect()
    assert client.call(produce_to(("t", 0, long_batch(codec)), acks=1)) is None
    other = slow.connect().call(produce_to(("t", 0, a_batch(b"quick")), acks=1))
    assert [(one.error_code, one.base_offset) for one in produced_in(other)] == [(0, 0)]
    finish(slow, thread)
    (one,) = produced_in(client.receive())
    assert (one.error_code, one.base_offset) == (0, 1)
    assert values_in(slow) == [b"quick", LONG]


@pytest.mark.parametrize("kind", ["compacted", "of another codec"])
def test_batch_for_a_compacted_or_recompressing_topic_is_checked_while_others_are_served(
    slow: HandlerStage, thread: ManualBackground, kind: str
) -> None:
    configs = {"compression.type": "zstd"} if kind == "of another codec" else {}
    configs |= {"cleanup.policy": "compact"} if kind == "compacted" else {}
    slow.update(a_topic("t", ALONE, configs=configs))
    codec = Compression.GZIP if kind == "compacted" else Compression.NONE
    client = slow.connect()
    assert client.call(produce_to(("t", 0, long_batch(codec)), acks=1)) is None
    assert slow.partition("t").log.log_end_offset == 0
    finish(slow, thread)
    assert codes_of(produced_in(client.receive())) == [0]
    assert values_in(slow) == [LONG]


def test_batch_checked_later_has_its_own_copy_of_the_records(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    """The receive buffer is reused before the records are checked."""
    slow.update(a_topic("t", ALONE))
    client = slow.connect()
    frames: list[memoryview] = []
    on_frame = slow.pipeline.on_frame

    def keep(channel: Connection, frame: memoryview) -> None:
        frames.append(frame)
        on_frame(channel, frame)

    slow.pipeline.on_frame = keep  # type: ignore[method-assign]
    client.send(produce_to(("t", 0, long_batch()), acks=1))
    frames[0][:] = bytes(len(frames[0]))
    assert client.held_bytes == len(long_batch())
    finish(slow, thread)
    assert codes_of(produced_in(client.receive())) == [0]


def test_batches_of_a_request_keep_their_order_when_the_first_takes_long(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", ALONE, ALONE))
    me = [ProducerIdentity(7, 0, sequence) for sequence in (0, 1)]
    client = slow.connect()
    first = ("t", 0, long_batch(producer=me[0]))
    second = ("t", 0, a_batch(b"behind", producer=me[1]))
    assert client.call(produce_to(("t", 1, a_batch()), first, second, acks=1)) is None
    finish(slow, thread)
    answered = produced_in(client.receive())
    assert [(one.error_code, one.base_offset) for one in answered] == [(0, 0), (0, 0), (0, 1)]
    assert values_in(slow) == [LONG, b"behind"]


def test_long_batch_with_acks_all_waits_for_the_followers(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", BOTH))
    client = slow.connect()
    assert client.call(produce_to(("t", 0, long_batch()), acks=-1)) is None
    assert client.is_worked_on
    finish(slow, thread)
    assert client.receive() is None
    assert client.held_bytes == 0  # the records are in the log
    slow.follower_fetches(OTHER, slow.partition("t"), 1)
    assert codes_of(produced_in(client.receive())) == [0]
    assert slow.commit_waits.size == 0


def test_batch_that_was_committed_while_the_next_one_was_checked_needs_no_further_append(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", BOTH, BOTH))
    client = slow.connect()
    request = produce_to(("t", 1, a_batch()), ("t", 0, long_batch()), acks=-1)
    assert client.call(request) is None
    slow.follower_fetches(OTHER, slow.partition("t", 1), 1)
    finish(slow, thread)
    slow.follower_fetches(OTHER, slow.partition("t"), 1)
    assert codes_of(produced_in(client.receive())) == [0, 0]


def test_long_batch_with_acks_0_is_not_answered_and_an_error_closes_the_connection(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", ALONE, configs={"cleanup.policy": "compact"}))
    client = slow.connect()
    client.send(produce_to(("t", 0, long_batch()), acks=0))
    assert client.is_waiting
    finish(slow, thread)
    assert not client.is_waiting
    assert values_in(slow) == [LONG]
    keyless = bytes(build_batch([NewRecord(LONG, None, WALL_MS)], codec=Compression.ZSTD))
    client.send(produce_to(("t", 0, keyless), acks=0))
    finish(slow, thread)
    assert not client.is_open
    assert "invalid_record" in str(client.closed_because)


def test_long_batch_is_appended_when_the_client_has_disconnected(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", BOTH))
    for acks in (0, 1, -1):
        client = slow.connect()
        client.send(produce_to(("t", 0, long_batch()), acks=acks))
        client.close()
        finish(slow, thread)
    assert slow.partition("t").log.log_end_offset == 3
    assert slow.commit_waits.size == 0


def test_long_batch_is_refused_when_leadership_was_lost_meanwhile(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", BOTH))
    client = slow.connect()
    client.send(produce_to(("t", 0, long_batch()), acks=1))
    led = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    slow.update(a_topic("t", led))
    finish(slow, thread)
    assert codes_of(produced_in(client.receive())) == [ErrorCode.not_leader_or_follower]
    assert slow.partition("t").log.log_end_offset == 0


def test_long_batch_is_refused_when_its_topic_was_deleted_meanwhile(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", ALONE))
    client = slow.connect()
    client.send(produce_to(("t", 0, long_batch()), acks=1))
    slow.update(deleted=("t",))
    finish(slow, thread)
    assert codes_of(produced_in(client.receive())) == [ErrorCode.unknown_topic_or_partition]


def test_refused_long_batch_is_reported_in_the_answer(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", ALONE))
    client = slow.connect()
    client.send(produce_to(("t", 0, long_batch(timestamp_ms=WALL_MS + 7_200_000)), acks=1))
    finish(slow, thread)
    (one,) = produced_in(client.receive())
    assert one.error_code == ErrorCode.invalid_timestamp
    assert [error.batch_index for error in one.record_errors] == [0]


def test_log_append_time_is_the_time_of_the_append(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", ALONE, configs={"message.timestamp.type": "LogAppendTime"}))
    client = slow.connect()
    client.send(produce_to(("t", 0, long_batch()), acks=1))
    slow.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    slow.pass_time(5_000)
    finish(slow, thread)
    client.receive()
    log = slow.partition("t").log
    part = log.read(log.log_start_offset, 1 << 20, upper_offset=2, at_least_one_batch=True)  # type: ignore[arg-type]
    stamps = [record.timestamp_ms for record in read_records(part.view())]
    assert stamps[1] == stamps[0] + 5_000


# -- ListOffsets -----------------------------------------------------------------------------------


def append_liars(stage: HandlerStage, thread: ManualBackground, count: int) -> None:
    """Append batches as old versions stored them, with timestamps in the header that no
    record has.
    """
    log = stage.partition("t").log
    for number in range(count):
        batch = with_header(
            long_batch(timestamp_ms=WALL_MS - 10_000 + number),
            max_timestamp=WALL_MS,
            base_offset=number,
            partition_leader_epoch=0,
        )
        log.append_as_follower(batch, WALL_MS)


def ask(client: Any, timestamp: int, version: int = 9) -> Any:
    return client.call(list_offsets_of("t", (0, timestamp), version=version))


@pytest.mark.parametrize("timestamp", [WALL_MS - 5, MAX_TIMESTAMP])
def test_list_offsets_decodes_long_batches_while_others_are_served(
    slow: HandlerStage, thread: ManualBackground, timestamp: int
) -> None:
    slow.update(a_topic("t", ALONE))
    slow.connect().send(produce_to(("t", 0, long_batch()), acks=1))
    finish(slow, thread)
    client = slow.connect()
    assert ask(client, timestamp) is None
    (latest,) = offsets_in(ask(slow.connect(), -1))
    assert latest.offset == 1
    finish(slow, thread)
    (one,) = offsets_in(client.receive())
    assert (one.error_code, one.offset, one.timestamp) == (0, 0, WALL_MS)


def test_search_decodes_only_the_necessary_batches(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", a_partition([BROKER], leader=OTHER)))
    append_liars(slow, thread, 30)
    slow.update(a_topic("t", a_partition([BROKER], leader_epoch=1, partition_epoch=1)))
    client = slow.connect()
    assert ask(client, WALL_MS - 10_000 + 3) is None
    steps = 0
    while thread.do_one():
        steps += 1
        slow.turn()
    (one,) = offsets_in(client.receive())
    assert (one.error_code, one.offset) == (0, 3)
    assert steps == 4


def test_search_ends_at_its_deadline_or_when_the_client_disconnects(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", a_partition([BROKER], leader=OTHER)))
    append_liars(slow, thread, 30)
    slow.update(a_topic("t", a_partition([BROKER], leader_epoch=1, partition_epoch=1)))
    late, gone = slow.connect(), slow.connect()
    assert ask(late, WALL_MS - 1, version=10) is None
    assert ask(gone, WALL_MS - 1) is None
    gone.close()
    thread.do_one()
    slow.pass_time(2_000)  # the request has asked for an answer within one second
    finish(slow, thread)
    assert codes_of(offsets_in(late.receive())) == [ErrorCode.request_timed_out]


def test_limited_number_of_small_batches_is_decoded_on_the_brokers_thread(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    count = 12
    slow.update(a_topic("t", *[ALONE] * count))
    for number in range(count):
        slow.connect().call(produce_to(("t", number, a_batch()), acks=1))
    client = slow.connect()
    few = client.call(list_offsets_of("t", *[(number, 0) for number in range(8)]))
    assert [one.offset for one in offsets_in(few)] == [0] * 8
    assert client.call(list_offsets_of("t", *[(number, 0) for number in range(count)])) is None
    finish(slow, thread)
    assert [one.offset for one in offsets_in(client.receive())] == [0] * count


def test_search_is_refused_when_leadership_was_lost_meanwhile(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", BOTH))
    slow.connect().send(produce_to(("t", 0, long_batch()), acks=1))
    finish(slow, thread)
    slow.follower_fetches(OTHER, slow.partition("t"), 1)
    client = slow.connect()
    assert ask(client, 0) is None
    led = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    slow.update(a_topic("t", led))
    slow.partition("t").log.truncate_to(0)  # type: ignore[arg-type]
    finish(slow, thread)
    assert codes_of(offsets_in(client.receive())) == [ErrorCode.not_leader_or_follower]


def test_undecodable_batch_is_an_error_of_its_partition_alone(
    slow: HandlerStage, thread: ManualBackground
) -> None:
    slow.update(a_topic("t", a_partition([BROKER], leader=OTHER)))
    broken = with_header(
        a_batch(), attributes=1, partition_leader_epoch=0, max_timestamp=WALL_MS + 1
    )
    slow.partition("t").log.append_as_follower(broken, WALL_MS)
    slow.update(a_topic("t", a_partition([BROKER], leader_epoch=1, partition_epoch=1)))
    assert codes_of(offsets_in(ask(slow.connect(), WALL_MS + 1))) == [ErrorCode.corrupt_message]
