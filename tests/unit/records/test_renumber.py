"""Stored batches are renumbered for production: what is kept, and what a broker accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import WallMs
from cluster.model.errors import Refused
from cluster.records.batch import Compression, read_header, stamp_checksum
from cluster.records.builder import NewRecord, ProducerIdentity, batch_at_offsets, build_batch
from cluster.records.produced import BatchLimits, validate_produced
from cluster.records.reader import Record, read_records
from cluster.records.renumber import NewBatch, renumbered, stamp_producer
from tests.support.stored_batches import with_append_time

LIMITS = BatchLimits(max_message_bytes=1 << 20)
ME = ProducerIdentity(77, 1, 10)
STAMP = 1_700_000_000_000

field = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(st.tuples(st.text(max_size=4), field), max_size=2).map(tuple)


@st.composite
def stored(draw: st.DrawFn) -> list[Record]:
    """Records as in a compacted log: offsets ascend with gaps."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        stamp = STAMP + draw(st.integers(-9, 9))
        records.append(Record(offset, stamp, draw(field), draw(field), draw(headers)))
        offset += draw(st.integers(1, 3))
    return records


def accepted(batch: NewBatch | None) -> list[Record]:
    """The records of a batch that a broker accepts."""
    assert batch is not None
    stamp_producer(batch, ME)
    header = validate_produced(memoryview(batch.content), LIMITS, WallMs(STAMP)).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == ME
    assert header.record_count == batch.record_count
    return list(read_records(batch.content))


@given(records=stored(), codec=st.sampled_from(Compression), from_offset=st.integers(0, 10))
def test_everything_but_the_offsets_is_kept(
    records: list[Record], codec: Compression, from_offset: int
) -> None:
    batch = memoryview(batch_at_offsets(records, codec=codec, leader_epoch=4))
    first = records[0].offset + from_offset
    wanted = [record for record in records if record.offset >= first]
    part = renumbered(read_header(batch), batch, lambda offset: offset >= first)
    if not wanted:
        assert part is None
        return
    found = accepted(part)
    assert found == [record._replace(offset=n) for n, record in enumerate(wanted)]
    assert part is not None
    assert read_header(part.content).compression is codec
    assert [record.offset for record in accepted(renumbered(read_header(batch), batch))] == list(
        range(len(records))
    )


def test_the_records_of_a_whole_batch_are_not_decoded() -> None:
    batch = build_batch(
        [NewRecord(b"v", timestamp_ms=STAMP)],
        base_offset=9,
        producer=ProducerIdentity(5, 0, 3),
        is_transactional=True,
    )
    batch[-3:] = b"???"
    part = renumbered(read_header(batch), memoryview(batch))
    assert part is not None
    assert part.content[61:] == batch[61:]
    header = read_header(part.content)
    assert (header.base_offset, header.producer_id, header.is_transactional) == (0, -1, False)


def test_append_time_becomes_the_time_of_each_record() -> None:
    plain = build_batch([NewRecord(b"a", timestamp_ms=5), NewRecord(b"b")])
    batch = memoryview(with_append_time(plain, STAMP))
    found = accepted(renumbered(read_header(batch), batch))
    assert [record.timestamp_ms for record in found] == [STAMP, STAMP]


def test_a_delete_horizon_is_not_taken_for_a_timestamp() -> None:
    horizon = STAMP + 1_000
    gone_and_kept = [Record(3, horizon, b"j", None), Record(4, STAMP, b"k", None)]
    stored = memoryview(batch_at_offsets(gone_and_kept))
    stored[22] |= 0x40
    stamp_checksum(stored)
    found = accepted(renumbered(read_header(stored), stored, lambda offset: offset == 4))
    assert found == [Record(0, STAMP, b"k", None)]


def test_damaged_records_are_refused() -> None:
    batch = memoryview(build_batch([NewRecord(b"a"), NewRecord(b"b")]))
    batch[61] = 0
    with pytest.raises(Refused):
        renumbered(read_header(batch), batch, lambda _: True)
