"""Index files: Kafka's bytes, and equal lookups in memory and in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.offset_index import ActiveOffsetIndex, ClosedOffsetIndex, is_sound
from cluster.log.time_index import TimeIndex, last_entry


def test_offset_index_bytes(tmp_path: Path) -> None:
    index = ActiveOffsetIndex(80)
    index.append(5, 4100)
    index.append(300, 9000)
    path = tmp_path / "i.index"
    index.write(path)
    assert path.read_bytes().hex() == "00000005000010040000012c00002328"


def test_time_index_bytes(tmp_path: Path) -> None:
    index = TimeIndex(120)
    index.append_if_newer(1_700_000_000_000, 7)
    index.append_if_newer(1_700_000_000_000, 9)
    index.append_if_newer(1_700_000_000_001, 12)
    path = tmp_path / "i.timeindex"
    index.write(path)
    assert path.read_bytes().hex() == ("0000018bcfe56800000000070000018bcfe568010000000c")
    assert last_entry(path) == (1_700_000_000_001, 12)
    assert TimeIndex.load(path, 120).last == (1_700_000_000_001, 12)


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=30),
    data=st.data(),
)
def test_lookups_agree(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    index = ActiveOffsetIndex(8000)
    entries, offset, position = [(0, 0)], 0, 0
    for more_offsets, more_bytes in steps:
        offset, position = offset + more_offsets, position + more_bytes
        index.append(offset, position)
        entries.append((offset, position))
    path = tmp_path_factory.mktemp("index") / "i.index"
    index.write(path)
    closed, loaded = ClosedOffsetIndex(path), ActiveOffsetIndex.load(path, 8000)
    for _ in range(5):
        wanted = data.draw(st.integers(0, offset + 10))
        expected = max(at for start, at in entries if start <= wanted)
        assert {one.position_of(wanted) for one in (index, closed, loaded)} == {expected}
        limit = data.draw(st.integers(0, position + 10))
        expected = max(at for _, at in entries if at <= limit)
        assert {one.position_before(limit) for one in (index, closed, loaded)} == {expected}
    cut = data.draw(st.integers(0, position + 10))
    loaded.truncate(cut)
    assert len(loaded) == sum(1 for _, at in entries[1:] if at < cut)


def test_lookups_in_empty_or_missing_indexes(tmp_path: Path) -> None:
    path = tmp_path / "i.index"
    assert not is_sound(path, 8)
    assert ClosedOffsetIndex(path).position_of(5) == 0
    path.write_bytes(b"")
    assert is_sound(path, 8)
    assert ClosedOffsetIndex(path).position_before(5) == 0
    assert last_entry(path) is None
    assert last_entry(tmp_path / "gone") is None
    path.write_bytes(bytes(12))
    assert not is_sound(path, 8)


def test_times_are_cut_by_offset() -> None:
    index = TimeIndex(1200)
    for step in range(10):
        index.append_if_newer(100 + step, step * 10)
    assert [index.offset_before(at) for at in (0, 100, 101, 105, 999)] == [0, 0, 0, 40, 90]
    index.truncate(40)
    assert (len(index), index.last) == (4, (103, 30))
