"""The walk over the batches of producers: Python against C, and both against single batches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.producer_state import AppendedBatch, EndedTransaction, ProducerState
from cluster.records import walk as chosen
from cluster.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, batches_of
from cluster.records.markers import EndMarker, build_marker
from cluster.records.producer_walk import BatchKind, ProducerBatch, producer_batches
from tests.support.compiled_walk import compile_walk
from tests.support.examples import examples
from tests.unit.log.log_builder import NOW_MS

TIMESTAMP = 1_700_000_000_000
PRODUCERS = st.sampled_from([-1, 0, 1, 2, 2**62])
EMPTY = BatchHeader(0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compile_walk(tmp_path_factory.mktemp("walk"))


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """One batch at offset 0: of data, a marker, or what compaction has left of either."""
    producer_id, epoch = draw(PRODUCERS), draw(st.integers(0, 2))
    if producer_id >= 0 and draw(st.integers(0, 3)) == 0:
        marker = EndMarker(producer_id, epoch, draw(st.integers(0, 3)), draw(st.booleans()))
        return build_marker(marker, NOW_MS)
    payload = bytes(draw(st.integers(0, 20)))
    header = EMPTY._replace(
        batch_length=49 + len(payload),
        attributes=draw(st.sampled_from([0, TRANSACTIONAL_BIT, TRANSACTIONAL_BIT, CONTROL_BIT])),
        last_offset_delta=draw(st.integers(0, 3)),
        max_timestamp=TIMESTAMP + draw(st.integers(-5, 5)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=draw(st.sampled_from([-1, 0, 5, 2**31 - 2])),
    )
    if header.is_control:  # as compaction leaves it
        return header._replace(batch_length=49).pack()
    return header._replace(record_count=draw(st.sampled_from([0, 1, 3]))).pack() + payload


def a_segment(parts: list[bytes]) -> bytes:
    """The batches one after the other, with offsets that grow."""
    content = bytearray()
    for number, part in enumerate(parts):
        content += (10 * number).to_bytes(8, "big") + part[8:]
    return bytes(content)


segments = st.lists(batches(), min_size=1, max_size=60).map(a_segment)


def everything(walk: Any, data: bytes, most: int) -> tuple[list[list[ProducerBatch]], int, bool]:
    """What the walk finds in steps of so many batches."""
    found, position, is_sound = [], 0, True
    while position < len(data) and is_sound:
        batches, position, is_sound = walk(data, position, len(data), most)
        found.append([tuple(batch) for batch in batches])
    return found, position, is_sound


Contents = tuple[dict[int, tuple[int, int, int, int, list[AppendedBatch]]], list[EndedTransaction]]


def contents(state: ProducerState) -> tuple[Contents, list[tuple[int, int]]]:
    """All that a state knows; the open transactions in their order."""
    entries = {
        producer_id: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp_ms,
            entry.transaction_offset,
            list(entry.batches),
        )
        for producer_id, entry in state.entries.items()
    }
    return (entries, list(state.ended)), list(state.open_transactions())


def replayed(data: bytes, found: list[list[ProducerBatch]]) -> object:
    state = ProducerState(1000)
    for some in found:
        state.replay_walked(some, data)
    return contents(state)


@examples(300)
@given(segments, st.integers(1, 70))
def test_walks_replay_to_the_same_state_as_single_batches(
    compiled: Any, data: bytes, most: int
) -> None:
    state = ProducerState(1000)
    for header, batch in batches_of(memoryview(data)):
        state.replay(header, batch)
    expected = contents(state)
    for walk in (producer_batches, compiled.producer_batches):
        found, position, is_sound = everything(walk, data, most)
        assert (position, is_sound) == (len(data), True)
        assert replayed(data, found) == expected


@examples(300)
@given(segments, st.integers(1, 70), st.data())
def test_both_walks_end_at_the_same_damage(
    compiled: Any, data: bytes, most: int, draw: Any
) -> None:
    damaged = bytearray(data)
    damaged[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    damaged = damaged[: len(data) - draw.draw(st.sampled_from([0, 0, 1, 60]))]
    found, position, is_sound = everything(producer_batches, bytes(damaged), most)
    again, again_position, again_sound = everything(compiled.producer_batches, bytes(damaged), most)
    assert (again_position, again_sound) == (position, is_sound)
    for some, fewer in zip(found, again, strict=True):
        left = iter(some)
        for batch in fewer:  # in the same order, but for those that were left out
            assert any(batch[:6] == other[:6] and batch[7] == other[7] for other in left)


def test_compiled_walk_leaves_out_what_nobody_remembers(compiled: Any) -> None:
    header = EMPTY._replace(
        attributes=TRANSACTIONAL_BIT, producer_id=7, base_sequence=0, record_count=1
    )
    data = a_segment([header.pack()] * 100)
    (found,), _, _ = everything(compiled.producer_batches, data, 100)
    assert [(batch[3], batch[6]) for batch in found] == [
        (0, BatchKind.OPENING),
        *((offset, BatchKind.DATA) for offset in range(950, 1000, 10)),
    ]


def test_walk_begins_and_ends_where_it_is_told(compiled: Any) -> None:
    header = EMPTY._replace(producer_id=7, base_sequence=0, record_count=1)
    data = a_segment([header.pack()] * 4) + bytes(100)
    for walk in (producer_batches, compiled.producer_batches, chosen.producer_batches):
        batches, position, is_sound = walk(memoryview(data), 61, 4 * 61, 100)
        assert [batch[3] for batch in batches] == [10, 20, 30]
        assert (position, is_sound) == (4 * 61, True)
        assert walk(data, 61, 4 * 61, 2)[1:] == (3 * 61, True)
        assert walk(data, 61, 4 * 61 - 1, 100)[1:] == (3 * 61, False)
        assert walk(data, 4 * 61, 4 * 61 + 100, 100)[1:] == (4 * 61, False)
    for wrong in ((-1, 10, 1), (0, len(data) + 1, 1), (0, 10, 0), (0, 10, 1 << 30)):
        with pytest.raises(ValueError, match="position"):
            compiled.producer_batches(data, *wrong)
