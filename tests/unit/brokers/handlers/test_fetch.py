"""Fetch from real logs: the records read, the waits and the refusals."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import Offset
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch, codes_of, fetched_in, produced_in
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import fetch_from, produce_to, wanted

ALONE = a_partition([BROKER])
SMALL_SEGMENTS = {"segment.bytes": "1000"}
SIZE = len(a_batch(b"x" * 100))


def append(stage: HandlerStage, *partitions: int, times: int = 1, size: int = 100) -> None:
    client = stage.connect()
    for partition in partitions:
        for _ in range(times):
            answer = client.call(produce_to(("t", partition, a_batch(b"x" * size)), acks=1))
            assert codes_of(produced_in(answer)) == [0]


def sizes(answer: Any) -> list[int]:
    return [len(partition.records or b"") for partition in fetched_in(answer)]


# -- what is read ----------------------------------------------------------------------------------


def test_every_partition_of_a_request_is_read(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE), a_topic("u", ALONE))
    append(stage, 0, 1)

    answer = stage.connect().call(
        fetch_from(("t", [wanted(1), wanted(0)]), ("u", [wanted(0)]), max_wait_ms=500)
    )

    assert [topic.topic for topic in answer.responses] == ["t", "u"]
    assert [p.partition_index for p in fetched_in(answer)] == [1, 0, 0]
    assert sizes(answer) == [SIZE, SIZE, 0]
    assert codes_of(fetched_in(answer)) == [0, 0, 0]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_answered_with_the_records(stage: HandlerStage, version: int) -> None:
    topic = a_topic("t", ALONE)
    stage.update(topic)
    append(stage, 0)

    name: Any = topic.topic_id if version >= 13 else "t"
    (found,) = fetched_in(stage.connect().call(fetch_from((name, [wanted(0)]), version=version)))

    assert found.error_code == 0
    assert [r.value for r in read_records(memoryview(found.records))] == [b"x" * 100]
    assert found.high_watermark == found.last_stable_offset == 1


def test_consumers_read_only_below_the_high_watermark(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER])))
    append(stage, 0, times=2)
    client = stage.connect()
    partition = stage.partition("t")

    (hidden,) = fetched_in(client.call(fetch_from(("t", [wanted(0)]))))
    stage.follower_fetches(OTHER, partition, 1)
    (first,) = fetched_in(client.call(fetch_from(("t", [wanted(0)]))))
    (beyond,) = fetched_in(client.call(fetch_from(("t", [wanted(0, 2)]))))

    assert (hidden.high_watermark, len(hidden.records or b"")) == (0, 0)
    assert (first.high_watermark, len(first.records)) == (1, SIZE)
    # Between the high watermark and the log end there is nothing to see, but nothing wrong either.
    assert (beyond.error_code, len(beyond.records or b"")) == (0, 0)


def test_offsets_outside_of_the_log_are_refused(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    append(stage, 0, times=3)
    stage.partition("t").log.advance_log_start_offset(Offset(1))

    out = ErrorCode.offset_out_of_range
    for offset, code in [(0, out), (1, 0), (3, 0), (4, out), (-1, out)]:
        answer = stage.connect().call(fetch_from(("t", [wanted(0, offset)])))
        assert codes_of(fetched_in(answer)) == [code]


# -- limits ----------------------------------------------------------------------------------------


def test_request_limit_applies_across_partitions(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE, ALONE))
    append(stage, 0, 1, 2, times=3)

    answer = stage.connect().call(
        fetch_from(("t", [wanted(0), wanted(1), wanted(2)]), max_bytes=5 * SIZE + 1)
    )

    assert sizes(answer) == [3 * SIZE, 2 * SIZE, 0]


def test_only_the_first_batch_of_all_may_exceed_a_limit(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE, ALONE))
    append(stage, 1, 2, times=3)
    every = [wanted(0, max_bytes=1), wanted(1, max_bytes=1), wanted(2, max_bytes=1)]

    of_partitions = stage.connect().call(fetch_from(("t", every)))
    of_request = stage.connect().call(
        fetch_from(("t", [wanted(0), wanted(1), wanted(2)]), max_bytes=1)
    )

    assert sizes(of_partitions) == [0, SIZE, 0]
    assert sizes(of_request) == [0, SIZE, 0]


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_repeated_partition_is_answered_once(stage: HandlerStage, version: int) -> None:
    """The last occurrence decides the offset, the first one the position, as in Kafka 4.1."""
    topic = a_topic("t", ALONE, ALONE)
    stage.update(topic)
    append(stage, 0, 1, times=2)
    client = stage.connect()
    named = "t" if version < 13 else topic.topic_id

    def answered(*asked: list[Any], **more: Any) -> list[tuple[int, int]] | None:
        topics = [(named, partitions) for partitions in asked]
        answer = client.call(fetch_from(*topics, version=version, **more))
        if answer is None:
            return None
        assert len(answer.responses) == 1
        indexes = [each.partition_index for each in fetched_in(answer)]
        return list(zip(indexes, sizes(answer), strict=True))

    assert answered([wanted(0), wanted(1), wanted(0, 1)]) == [(0, SIZE), (1, 2 * SIZE)]
    assert answered([wanted(0)], [wanted(0, 1), wanted(1, 1)]) == [(0, SIZE), (1, SIZE)]

    assert answered([wanted(0, 2), wanted(0, 2)], max_wait_ms=500) is None
    append(stage, 0)
    assert sizes(client.receive()) == [SIZE]
    assert len(stage.purgatory) == 0


# -- waiting ---------------------------------------------------------------------------------------


def test_fetch_waits_until_there_are_enough_bytes(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE))
    client = stage.connect()

    assert (
        client.call(fetch_from(("t", [wanted(0), wanted(1)]), max_wait_ms=500, min_bytes=2 * SIZE))
        is None
    )
    append(stage, 0)
    assert client.receive() is None
    append(stage, 1)
    assert sizes(client.receive()) == [SIZE, SIZE]
    assert len(stage.purgatory) == 0


def test_fetch_waits_no_longer_than_max_wait(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()

    client.call(fetch_from(("t", [wanted(0)]), max_wait_ms=500, min_bytes=1_000))
    append(stage, 0)
    stage.pass_time(499)
    assert client.receive() is None
    stage.pass_time(1)
    assert sizes(client.receive()) == [SIZE]


@pytest.mark.parametrize("max_wait_ms", [0, -1])
def test_fetch_without_wait_time_is_answered_empty(stage: HandlerStage, max_wait_ms: int) -> None:
    stage.update(a_topic("t", ALONE))

    answer = stage.connect().call(fetch_from(("t", [wanted(0)]), max_wait_ms=max_wait_ms))

    assert sizes(answer) == [0]


def test_fetch_without_partitions_is_answered_immediately(stage: HandlerStage) -> None:
    assert fetched_in(stage.connect().call(fetch_from(max_wait_ms=500))) == []


def test_parked_fetch_is_dropped_when_the_client_disconnects(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()
    client.call(fetch_from(("t", [wanted(0)]), max_wait_ms=500))

    client.close()

    assert len(stage.purgatory) == 0
    append(stage, 0)
    stage.pass_time(500)


def test_fetch_does_not_wait_when_a_limit_is_exceeded(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    append(stage, 0, times=10)
    client = stage.connect()

    # Batches are whole here, so a limit is seldom met to the byte; more cannot come of waiting.
    of_request = client.call(
        fetch_from(("t", [wanted(0)]), max_bytes=1_000, min_bytes=1_000, max_wait_ms=500)
    )
    of_partition = client.call(
        fetch_from(("t", [wanted(0, max_bytes=1_000)]), min_bytes=1_000, max_wait_ms=500)
    )
    more_than_all = client.call(
        fetch_from(("t", [wanted(0)]), max_bytes=1_000, min_bytes=5_000, max_wait_ms=500)
    )

    assert [sizes(a) for a in (of_request, of_partition, more_than_all)] == [
        [1_000 // SIZE * SIZE]
    ] * 3


def test_fetch_waits_for_other_partitions_when_one_partitions_limit_is_exceeded(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", ALONE, ALONE))
    append(stage, 0, times=2)
    client = stage.connect()

    asked = [wanted(0, max_bytes=SIZE), wanted(1)]
    assert client.call(fetch_from(("t", asked), min_bytes=2 * SIZE, max_wait_ms=500)) is None
    append(stage, 1)
    assert sizes(client.receive()) == [SIZE, SIZE]


def test_fetch_does_not_wait_when_the_next_segment_has_more_records(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, configs=SMALL_SEGMENTS))
    append(stage, 0, times=15)
    log = stage.partition("t").log
    last_of_first = log.segments[1].base_offset - 1

    answer = stage.connect().call(
        fetch_from(("t", [wanted(0, last_of_first)]), min_bytes=3 * SIZE, max_wait_ms=500)
    )

    assert sizes(answer) == [SIZE]  # a read ends with its segment; the next request reads on


# -- leadership ------------------------------------------------------------------------------------


def test_a_waiting_fetch_is_answered_when_the_leader_changes(stage: HandlerStage) -> None:
    both = [BROKER, OTHER]
    topic = a_topic("t", a_partition(both))
    stage.update(topic)
    client = stage.connect()
    asked = wanted(0, leader_epoch=0)
    client.call(fetch_from((topic.topic_id, [asked]), max_wait_ms=500, version=16))

    stage.update(a_topic("t", a_partition(both, leader=OTHER, leader_epoch=1, partition_epoch=1)))

    answer = client.receive()
    (found,) = fetched_in(answer)
    assert found.error_code == ErrorCode.fenced_leader_epoch
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (OTHER, 1)
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (OTHER, "host2", 9094)


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()
    client.call(fetch_from(("t", [wanted(0)]), max_wait_ms=500))

    stage.update(deleted=("t",))

    assert codes_of(fetched_in(client.receive())) == [ErrorCode.unknown_topic_or_partition]


def test_fetch_compares_the_clients_leader_epoch(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=5)))
    client = stage.connect()

    codes = [0, ErrorCode.fenced_leader_epoch, 0, ErrorCode.unknown_leader_epoch]
    for epoch, code in zip((-1, 4, 5, 6), codes, strict=True):
        answer = client.call(fetch_from(("t", [wanted(0, leader_epoch=epoch)])))
        assert codes_of(fetched_in(answer)) == [code]


def test_fetch_compares_epochs_before_leadership(stage: HandlerStage) -> None:
    """A newer epoch gets unknown_leader_epoch, so the client does not search for another leader."""
    stage.update(a_topic("t", a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=5)))

    elsewhere = ErrorCode.not_leader_or_follower
    codes = [
        elsewhere,
        ErrorCode.fenced_leader_epoch,
        elsewhere,
        ErrorCode.unknown_leader_epoch,
    ]
    for epoch, code in zip((-1, 4, 5, 6), codes, strict=True):
        asked = fetch_from(("t", [wanted(0, leader_epoch=epoch)]), version=10)
        assert codes_of(fetched_in(stage.connect().call(asked))) == [code]


def test_fetch_of_partitions_without_a_local_replica_is_refused(stage: HandlerStage) -> None:
    here, elsewhere = a_topic("here", ALONE), a_topic("elsewhere", a_partition([OTHER, THIRD]))
    stage.update(here, elsewhere)
    client = stage.connect()

    by_name = client.call(
        fetch_from(
            ("here", [wanted(0), wanted(7)]), ("elsewhere", [wanted(0)]), ("none", [wanted(0)])
        )
    )
    by_id = client.call(
        fetch_from(
            (here.topic_id, [wanted(0), wanted(7)]),
            (elsewhere.topic_id, [wanted(0)]),
            (uuid.uuid4(), [wanted(0)]),
            version=13,
        )
    )

    unknown, moved = ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower
    assert codes_of(fetched_in(by_name)) == [0, unknown, moved, unknown]
    assert codes_of(fetched_in(by_id)) == [0, unknown, moved, ErrorCode.unknown_topic_id]


# -- histories that part (KIP-595) -----------------------------------------------------------------


def test_fetch_returns_the_diverging_epoch_of_a_diverged_client(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=1)))
    append(stage, 0, times=2)
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=4, partition_epoch=1)))
    append(stage, 0, times=2)
    client = stage.connect()

    def ask(offset: int, last_fetched_epoch: int) -> Any:
        one = wanted(0, offset, last_fetched_epoch=last_fetched_epoch)
        (found,) = fetched_in(client.call(fetch_from(("t", [one]), max_wait_ms=500)))
        return found

    def parts(found: Any) -> tuple[int, int]:
        return found.diverging_epoch.epoch, found.diverging_epoch.end_offset

    assert parts(ask(2, 1)) == parts(ask(3, 4)) == (-1, -1)
    assert parts(ask(3, 1)) == (1, 2)
    assert parts(ask(3, 3)) == (1, 2)
    assert not ask(3, 3).records
    # Kafka knows no end of an epoch that is newer than its own.
    assert ask(3, 5).error_code == ErrorCode.offset_out_of_range


def test_offset_before_the_log_start_is_out_of_range_whatever_its_epoch(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=1)))
    append(stage, 0, times=2)
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=4, partition_epoch=1)))
    append(stage, 0, times=2)
    stage.partition("t").log.advance_log_start_offset(Offset(1))

    one = wanted(0, 0, last_fetched_epoch=3)
    (found,) = fetched_in(stage.connect().call(fetch_from(("t", [one]))))

    assert found.error_code == ErrorCode.offset_out_of_range


# -- a disk that fails -----------------------------------------------------------------------------


def test_unreadable_partition_does_not_affect_the_others(tmp_path: Path) -> None:
    topic = a_topic("t", ALONE, ALONE, configs=SMALL_SEGMENTS)
    with HandlerStage(tmp_path) as before:
        before.update(topic)
        append(before, 0, 1, times=10)
        closed = before.partition("t").log.segments[0].file.path
        before.table.close()

    with HandlerStage(tmp_path) as stage:
        stage.update(topic)
        closed.unlink()
        client = stage.connect()
        answer = client.call(fetch_from(("t", [wanted(0), wanted(1)]), max_wait_ms=500))

        assert client.closed_because is None
        assert codes_of(fetched_in(answer)) == [ErrorCode.kafka_storage_error, 0]
        assert [bool(size) for size in sizes(answer)] == [False, True]


def test_fetch_by_id_refuses_the_replica_of_an_earlier_topic_with_that_name(
    stage: HandlerStage,
) -> None:
    topic = a_topic("t", ALONE)
    stage.update(topic)
    stage.partition("t").topic_id = uuid.uuid4()  # a disk kept it from being replaced
    client = stage.connect()

    fetched = client.call(fetch_from((topic.topic_id, [wanted(0)]), version=13))
    produced = client.call(produce_to((topic.topic_id, 0, a_batch()), version=13))

    assert codes_of(fetched_in(fetched)) == [ErrorCode.inconsistent_topic_id]
    assert codes_of(produced_in(produced)) == [ErrorCode.unknown_topic_id]
