"""The bytes of a single batch after some of its records are removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.cleaner.batch_filter import (
    GONE,
    Horizon,
    check_batch,
    empty_batch,
    filter_batch,
    index_batch,
)
from cluster.log.cleaner.offset_map import OffsetMap
from cluster.model.errors import Refused
from cluster.records.batch import (
    DELETE_HORIZON_BIT,
    Compression,
    read_header,
    stamp_checksum,
)
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import Record, read_records
from tests.support.stored_batches import with_append_time
from tests.unit.log.log_builder import NOW_MS

HORIZON = Horizon(NOW_MS, 86_400_000)
BASE = 1_000
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=90)), max_size=2)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=20_000),
        st.binary(max_size=9) | st.binary(min_size=60, max_size=20_000),
        st.integers(NOW_MS - 2**40, NOW_MS + 2**40),
        HEADERS.map(tuple),
    ),
    min_size=1,
    max_size=70,
)


def a_map(latest: int = BASE + 10_000) -> OffsetMap:
    keys = OffsetMap(1 << 20, 0.9, 10_000)
    keys.note_seen(latest)
    return keys


def build(records, codec=Compression.NONE) -> bytes:
    producer = ProducerIdentity(7, 3, 50)
    return bytes(
        build_batch(records, base_offset=BASE, codec=codec, producer=producer, leader_epoch=9)
    )


def read(batch) -> list[Record]:
    return list(read_records(memoryview(batch)))


def clean(batch: bytes, keys: OffsetMap, horizon: Horizon = HORIZON):
    return filter_batch(read_header(batch), batch, keys, horizon)


@given(RECORDS, st.sampled_from(Compression), st.data())
def test_kept_batches_keep_their_bytes(records, codec, data):
    batch = build(records, codec)
    header, before = read_header(batch), read(batch)
    replaced = data.draw(st.sets(st.sampled_from([one.key for one in records])))
    keys = a_map()
    assert index_batch(header, batch, 0, keys)
    for key in replaced:
        keys.put(key, BASE + 5_000)
    newest = {one.key: one.offset for one in before}
    wanted = [one for one in before if newest[one.key] == one.offset and one.key not in replaced]
    filtered = clean(batch, keys)
    if not wanted:
        assert filtered == GONE
        return
    after = read_header(filtered.content)
    check_batch(after, bytes(filtered.content))
    assert read(filtered.content) == wanted
    assert filtered.records == after.record_count == len(wanted)
    assert filtered.max_timestamp == after.max_timestamp
    assert after.max_timestamp == max(one.timestamp_ms for one in wanted)
    is_marked = any(one.value is None for one in wanted)
    assert after.delete_horizon_ms == (NOW_MS + 86_400_000 if is_marked else None)
    changing = {"batch_length", "crc", "max_timestamp", "record_count"}
    changing |= {"attributes", "base_timestamp"} if is_marked else set()
    kept = header._asdict() | {name: getattr(after, name) for name in changing}
    assert after._asdict() == kept
    assert after.attributes & ~DELETE_HORIZON_BIT == header.attributes
    assert (filtered.content is batch) == (filtered.content == batch)
    again = clean(bytes(filtered.content), keys)
    assert again.content == filtered.content


def test_filter_keeps_the_bytes_of_a_batch_that_loses_no_record():
    batch = build([NewRecord(b"v", b"k", NOW_MS)], Compression.GZIP)
    assert clean(batch, a_map()).content is batch


def test_records_beyond_the_indexed_offsets_stay_whatever_their_keys():
    records = [NewRecord(b"v", b"k", NOW_MS), NewRecord(b"v", None, NOW_MS)]
    batch = build(records)
    keys = a_map(latest=BASE - 1)
    keys.put(b"k", BASE + 5_000)
    assert clean(batch, keys).content == batch


def test_filter_removes_tombstones_after_their_horizon():
    records = [NewRecord(None, b"a", NOW_MS), NewRecord(b"v", b"b", NOW_MS)]
    keys = a_map()
    marked = bytes(clean(build(records), keys).content)
    deadline_ms = read_header(marked).delete_horizon_ms
    for now_ms, left in ((deadline_ms - 1, [b"a", b"b"]), (deadline_ms, [b"b"])):
        filtered = clean(marked, keys, Horizon(now_ms, 5))
        assert [one.key for one in read(filtered.content)] == left
        assert read_header(filtered.content).delete_horizon_ms == deadline_ms


def test_the_leaders_timestamp_stays_that_of_every_record():
    batch = with_append_time(build([NewRecord(None, b"a", 5), NewRecord(b"v", b"b", 9)]), NOW_MS)
    keys = a_map()
    keys.put(b"b", BASE + 5_000)
    filtered = clean(bytes(batch), keys)
    assert [(one.key, one.timestamp_ms) for one in read(filtered.content)] == [(b"a", NOW_MS)]
    assert filtered.max_timestamp == NOW_MS


def test_an_emptied_batch_keeps_offsets_and_sequence():
    batch = build([NewRecord(b"v", b"k", NOW_MS)] * 3, Compression.LZ4)
    emptied = empty_batch(read_header(batch))
    header = read_header(emptied.content)
    check_batch(header, bytes(emptied.content))
    assert (header.record_count, header.base_timestamp, header.attributes) == (0, -1, 0)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (BASE, BASE + 2, 52)
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert header.partition_leader_epoch == 9
    assert read(emptied.content) == []


def test_the_map_takes_keys_from_an_offset_on():
    batch = build([NewRecord(b"v", b"%d" % n, NOW_MS) for n in range(4)])
    keys = a_map()
    assert index_batch(read_header(batch), batch, BASE + 2, keys)
    assert [keys.get(b"%d" % n) for n in range(4)] == [-1, -1, BASE + 2, BASE + 3]


@given(st.data())
def test_damaged_records_are_refused_and_never_read_beyond_the_batch(data):
    codec = data.draw(st.sampled_from(Compression))
    records = [NewRecord(b"value" * 9, b"key-%d" % n, NOW_MS + n) for n in range(5)]
    batch = bytearray(build(records, codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(57, len(batch) - 1))] = data.draw(st.integers(0, 255))
    stamp_checksum(memoryview(batch))
    damaged, keys = bytes(batch), a_map()
    try:
        index_batch(read_header(damaged), damaged, 0, keys)
        clean(damaged, keys)
    except Refused:
        pass


def test_a_count_that_no_batch_can_hold_ends_at_its_bytes():
    header = read_header(build([NewRecord(b"v", b"k", NOW_MS)]))._replace(record_count=2**31 - 1)
    batch = bytearray(header._replace(batch_length=49 + 1_000).pack() + bytes(1_000))
    with pytest.raises(Refused, match="do not decode"):
        index_batch(read_header(batch), bytes(batch), 0, a_map())
    with pytest.raises(Refused, match="do not decode"):
        clean(bytes(batch), a_map())


def test_a_wrong_checksum_is_refused():
    batch = bytearray(build([NewRecord(b"v", b"k", NOW_MS)]))
    batch[-1] ^= 1
    with pytest.raises(Refused, match="checksum"):
        check_batch(read_header(batch), bytes(batch))
