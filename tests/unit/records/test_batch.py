"""The requirements for a produced batch, and the fields that the leader writes into it."""

import pytest

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import (
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Compression,
    batches_of,
    checksum,
    pack_head,
    read_header,
    stamp_checksum,
)
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.produced import BatchLimits, validate_produced
from cluster.records.reader import read_records
from tests.support.stored_batches import stored

NOW = WallMs(1_000_000)
LIMITS = BatchLimits(max_message_bytes=1000)


def a_batch(count: int = 2, timestamp_ms: int = NOW) -> bytearray:
    return build_batch([NewRecord(b"value", b"key", timestamp_ms)] * count)


def changed(batch: bytearray, **fields: int) -> memoryview:
    header = read_header(batch)._replace(**fields)
    result = memoryview(bytearray(header.pack() + batch[61:]))
    stamp_checksum(result)
    return result


def refusal(batch: memoryview, limits: BatchLimits = LIMITS, now_ms: WallMs = NOW) -> ErrorCode:
    with pytest.raises(Refused) as raised:
        validate_produced(batch, limits, now_ms)
    return raised.value.code


def test_a_sound_batch_passes_with_its_header() -> None:
    header = validate_produced(memoryview(a_batch(3)), LIMITS, NOW).header
    assert (header.record_count, header.last_offset, header.size_bytes) == (3, 2, len(a_batch(3)))
    assert header.compression is Compression.NONE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_recognized(magic: int) -> None:
    batch = a_batch()
    batch[16] = magic
    assert refusal(memoryview(batch)) is ErrorCode.invalid_record


def test_a_future_format_is_an_invalid_record() -> None:
    batch = a_batch()
    batch[16] = 3
    assert refusal(memoryview(batch)) is ErrorCode.invalid_record


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60, 61, 80])
def test_a_short_batch_is_corrupt(size: int) -> None:
    assert refusal(memoryview(a_batch())[:size]) is ErrorCode.corrupt_message


def test_trailing_bytes_are_corrupt() -> None:
    assert refusal(memoryview(a_batch() + b"\0" * 60)) is ErrorCode.corrupt_message


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    assert refusal(changed(a_batch(), batch_length=length)) is ErrorCode.corrupt_message


def test_two_batches_are_an_invalid_record() -> None:
    assert refusal(memoryview(a_batch() + a_batch())) is ErrorCode.invalid_record


def test_every_flipped_bit_under_the_checksum_is_corrupt() -> None:
    batch = a_batch()
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 1
        assert refusal(memoryview(damaged)) is ErrorCode.corrupt_message


def test_size_limit_counts_the_whole_batch() -> None:
    batch = memoryview(a_batch())
    validate_produced(batch, BatchLimits(len(batch)), NOW)
    assert refusal(batch, BatchLimits(len(batch) - 1)) is ErrorCode.message_too_large


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 1},
        {"record_count": 3},
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"last_offset_delta": -1},
        {"base_offset": 5},
        {"attributes": 0x20},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
    ],
)
def test_batches_that_no_client_may_send_are_refused(fields: dict[str, int]) -> None:
    assert refusal(changed(a_batch(), **fields)) is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    batch = changed(a_batch(), attributes=codec)
    assert refusal(batch) is ErrorCode.unsupported_compression_type


def test_timestamp_bounds() -> None:
    limits = BatchLimits(1000, timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    for accepted in (NOW - 100, NOW, NOW + 50, -1):
        validate_produced(memoryview(a_batch(1, accepted)), limits, NOW)
    for refused in (NOW - 101, NOW + 51):
        code = refusal(memoryview(a_batch(1, refused)), limits)
        assert code is ErrorCode.invalid_timestamp


def test_timestamps_do_not_matter_when_the_broker_sets_them() -> None:
    limits = BatchLimits(1000, is_log_append_time=True, timestamp_after_max_ms=50)
    validate_produced(memoryview(a_batch(1, NOW + 51)), limits, NOW)


def test_log_append_time_is_not_the_producers_to_claim() -> None:
    # Kafka refuses the claim if it is true and drops it otherwise.
    batch = changed(a_batch(), attributes=LOG_APPEND_TIME_BIT)
    limits = LIMITS._replace(is_log_append_time=True)
    assert refusal(batch, limits) is ErrorCode.invalid_timestamp
    assert stored(batch, LIMITS, NOW) == a_batch()


def test_the_leaders_stamps_leave_the_checksum_right() -> None:
    batch = a_batch()
    before = read_header(batch)
    head = pack_head(2**40, before.batch_length, 9)
    batch[: len(head)] = head
    after = read_header(batch)
    assert after == before._replace(base_offset=2**40, partition_leader_epoch=9)
    assert checksum(batch) == after.crc


def test_log_append_time_becomes_the_timestamp_of_every_record() -> None:
    sent = build_batch([NewRecord(b"a", timestamp_ms=5), NewRecord(b"b", timestamp_ms=9)])
    batch = stored(sent, LIMITS._replace(is_log_append_time=True), NOW)
    assert [record.timestamp_ms for record in read_records(batch)] == [NOW, NOW]
    assert read_header(batch).is_log_append_time


def test_sequence_numbers_wrap() -> None:
    producer = ProducerIdentity(1, 0, 2**31 - 2)
    header = read_header(build_batch([NewRecord(b"")] * 4, producer=producer))
    assert header.last_sequence == 1
    assert read_header(a_batch()).last_sequence == -1


def test_control_batches_are_read_only_when_asked_for() -> None:
    marker = build_batch([NewRecord(b"\0\0\0\0\0\1", b"\0\0\0\1")], is_control=True)
    assert list(read_records(marker)) == []
    assert len(list(read_records(marker, with_control=True))) == 1


def test_a_run_of_batches_ends_before_a_part_of_one() -> None:
    run = a_batch(1) + a_batch(2)
    sizes = [len(batch) for _, batch in batches_of(memoryview(run)[:-1])]
    assert sizes == [len(a_batch(1))]


def test_header_packs_to_what_it_was_read_from() -> None:
    batch = a_batch()
    assert BatchHeader.pack(read_header(batch)) == batch[:61]
