"""A producer's batch header is checked against its records: produced, and searched by time."""

from pathlib import Path
from typing import Any

import pytest

from cluster.log.partition_log import PartitionLog
from cluster.model.errors import ErrorCode
from cluster.records.batch import Compression, read_header
from cluster.records.builder import NewRecord, build_batch
from cluster.records.compression import compress
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, list_offsets_of, offsets_in, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to
from tests.support.stored_batches import with_header
from tests.unit.log.log_builder import offset_for_timestamp

MAX_TIMESTAMP = -3
DAY = 24 * 3_600_000


def batch_of(*behind_ms: int, claims: int | None = None, codec: Compression) -> bytes:
    """Records of these ages, under a header with another largest timestamp."""
    records = [NewRecord(b"v", b"k", WALL_MS - behind) for behind in behind_ms]
    batch = build_batch(records, codec=codec)
    return bytes(batch if claims is None else with_header(batch, max_timestamp=claims))


def produce(stage: HandlerStage, batch: bytes) -> Any:
    (outcome,) = produced_in(stage.connect().call(produce_to(("t", 0, batch), acks=1)))
    return outcome


def offset_at(stage: HandlerStage, timestamp: int) -> int:
    (found,) = offsets_in(stage.connect().call(list_offsets_of("t", (0, timestamp))))
    assert found.error_code == 0
    return int(found.offset)


def log_of(stage: HandlerStage, **configs: str) -> PartitionLog:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    stage.update(a_topic("t", a_partition([BROKER]), configs=named))
    return stage.partition("t").log


def stored_in(log: PartitionLog) -> memoryview:
    end = log.log_end_offset
    return log.read(log.log_start_offset, 1 << 20, upper_offset=end, at_least_one_batch=True).view()


@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_found_by_time_when_the_header_has_no_timestamp(
    stage: HandlerStage, codec: Compression
) -> None:
    log = log_of(stage)
    produce(stage, batch_of(10_000, 9_000, 8_000, claims=-1, codec=codec))
    found = [offset_at(stage, WALL_MS - behind) for behind in (10_000, 9_000, 8_000, 7_999)]
    assert found == [0, 1, 2, -1]
    assert offset_at(stage, MAX_TIMESTAMP) == 2
    header = read_header(stored_in(log))
    assert header.max_timestamp == WALL_MS - 8_000
    assert [record.offset for record in read_records(stored_in(log))] == [0, 1, 2]


@pytest.mark.parametrize("codec", list(Compression))
def test_largest_timestamp_is_found_in_the_middle_of_a_batch(
    stage: HandlerStage, codec: Compression
) -> None:
    log_of(stage)
    produce(stage, batch_of(10_000, 5_000, 9_000, claims=WALL_MS - 10_000, codec=codec))
    assert offset_at(stage, WALL_MS - 7_000) == offset_at(stage, MAX_TIMESTAMP) == 1


@pytest.mark.parametrize("codec", list(Compression))
def test_header_timestamp_above_all_records_is_corrected(
    stage: HandlerStage, codec: Compression
) -> None:
    log = log_of(stage, message_timestamp_after_max_ms="3600000")
    assert produce(stage, batch_of(0, claims=WALL_MS + DAY, codec=codec)).error_code == 0
    assert read_header(stored_in(log)).max_timestamp == WALL_MS


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("behind_ms", [3_600_000, -7_200_000])
def test_each_record_is_checked_against_the_timestamp_bounds(
    stage: HandlerStage, codec: Compression, behind_ms: int
) -> None:
    log = log_of(stage, message_timestamp_before_max_ms="60000")
    refused = produce(stage, batch_of(0, behind_ms, claims=WALL_MS, codec=codec))
    assert refused.error_code == ErrorCode.invalid_timestamp
    assert [error.batch_index for error in refused.record_errors] == [1]
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", list(Compression))
def test_segment_age_is_that_of_its_records(stage: HandlerStage, codec: Compression) -> None:
    log = log_of(stage)
    produce(stage, batch_of(10 * DAY, claims=-1, codec=codec))
    log.roll(WALL_MS)
    assert log.segments[0].max_timestamp_ms == WALL_MS - 10 * DAY


@pytest.mark.parametrize("codec", list(Compression))
def test_log_append_time_replaces_the_timestamp_of_every_record(
    stage: HandlerStage, codec: Compression
) -> None:
    log = log_of(stage, message_timestamp_type="LogAppendTime")
    told = produce(stage, batch_of(10 * DAY, -DAY, claims=5, codec=codec))
    assert told.error_code == 0
    assert [record.timestamp_ms for record in read_records(stored_in(log))] == [WALL_MS] * 2


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "zstd"])
@pytest.mark.parametrize("codec", list(Compression))
def test_topic_with_its_own_codec_checks_and_corrects_timestamps(
    stage: HandlerStage, codec: Compression, target: str
) -> None:
    log = log_of(stage, compression_type=target)
    produce(stage, batch_of(10_000, 5_000, 9_000, claims=-1, codec=codec))
    header = read_header(stored_in(log))
    assert header.max_timestamp == WALL_MS - 5_000
    assert header.compression is Compression.of_name(target)
    assert offset_at(stage, WALL_MS - 7_000) == 1


@pytest.mark.parametrize("codec", list(Compression))
def test_follower_gets_the_batch_that_the_leader_has_stored(
    stage: HandlerStage, codec: Compression, tmp_path: Path
) -> None:
    log = log_of(stage)
    produce(stage, batch_of(10_000, 5_000, claims=-1, codec=codec))
    with HandlerStage(tmp_path / "follower", number=OTHER) as other:
        other.update(a_topic("t", a_partition([BROKER, OTHER])))
        follower = other.partition("t").log
        follower.append_as_follower(stored_in(log), WALL_MS)
        assert offset_for_timestamp(follower, WALL_MS - 6_000, upper_offset=2).offset == 1  # type: ignore[arg-type]


# -- records that would block every reader ---------------------------------------------------------

ONE = b"\x0e\0\0\0\x02k\x02v\0"
TWO = b"\x0e\0\0\2\x02k\x02v\0"
BODIES = {
    "count 3, one record": (ONE, 3),
    "count 1, two records": (ONE + TWO, 1),
    "40 bytes of 0xff": (b"\xff" * 40, 1),
    "value length -2": (b"\x0c\0\0\0\x02k\x03\0", 1),
    "header key length -1": (b"\x14\0\0\0\x02k\x02v\x02\x01\x02x", 1),
}


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("name", BODIES)
def test_unreadable_records_are_refused(stage: HandlerStage, name: str, codec: Compression) -> None:
    log = log_of(stage)
    body, count = BODIES[name]
    payload = compress(codec, body)
    batch = with_header(
        batch_of(*[0] * count, codec=Compression.NONE)[:61] + payload,
        batch_length=49 + len(payload),
        attributes=int(codec),
    )
    told = produce(stage, bytes(batch))
    assert told.error_code == ErrorCode.invalid_record
    assert told.error_message
    assert log.log_end_offset == 0
    assert produce(stage, batch_of(0, codec=codec)).base_offset == 0


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_batch_that_its_codec_cannot_decompress_is_refused(
    stage: HandlerStage, codec: Compression
) -> None:
    log = log_of(stage)
    batch = with_header(batch_of(0, codec=Compression.NONE), attributes=int(codec))
    assert produce(stage, bytes(batch)).error_code == ErrorCode.invalid_record
    assert log.log_end_offset == 0
