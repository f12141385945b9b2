"""One `.txnindex` file against a list, and how much of a long one is read."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log import segment_aborts
from cluster.log.files import LogFiles, place_files
from cluster.log.segment_aborts import BLOCK_ENTRIES, SegmentAborts
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    DamagedTransactionIndex,
    read_transactions,
)
from tests.support.examples import examples


def ended(steps: list[tuple[int, bool]]) -> list[AbortedTransaction]:
    """The aborted transactions of a log in which a producer begins or ends one at each offset."""
    opened: dict[int, int] = {}
    found = []
    for offset, (producer, is_abort) in enumerate(steps):
        first = opened.pop(producer, None)
        if first is None:
            opened[producer] = offset
        elif is_abort:
            stable = min(opened.values(), default=offset + 1)
            found.append(AbortedTransaction(producer, first, offset, stable))
    return found


STEPS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=80)
RANGES = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=8)


@given(steps=STEPS, ranges=RANGES, block=st.integers(1, 6), data=st.data())
@examples(300)
def test_index_finds_what_a_list_has(
    steps: list[tuple[int, bool]], ranges: list[tuple[int, int]], block: int, data: st.DataObject
) -> None:
    known = ended(steps)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        patch.setattr(segment_aborts, "BLOCK_ENTRIES", block)
        path = Path(home) / "00000000000000000000.txnindex"
        aborts = SegmentAborts(path, 0)
        for transaction in known:
            aborts.add(transaction)
            if data.draw(st.booleans()):
                aborts.add(transaction)  # known already
        if data.draw(st.booleans()):
            end = data.draw(st.integers(0, 80))
            aborts.cut(end)
            known = [each for each in known if each.last_offset < end]
        if data.draw(st.booleans()):
            aborts = SegmentAborts(path, aborts.count)
        assert aborts.count == len(known)
        assert read_transactions(path) == known
        for offset, end in ranges:
            found: list[tuple[int, int]] = []
            is_last = aborts.collect(offset, end, found)
            assert found == [
                (each.producer_id, each.first_offset)
                for each in known
                if each.last_offset >= offset and each.first_offset < end
            ]
            if is_last:
                assert any(each.last_stable_offset >= end for each in known)


class CountedFiles(LogFiles):
    """Counts what is read and written."""

    def __init__(self) -> None:
        self.reads = self.read_bytes = self.writes = 0
        self.pread: Any = self._pread
        self.pwrite: Any = self._pwrite

    def _pread(self, descriptor: int, size: int, position: int) -> bytes:
        content = LogFiles.pread(descriptor, size, position)
        self.reads += 1
        self.read_bytes += len(content)
        return content

    def _pwrite(self, descriptor: int, content: memoryview, position: int) -> int:
        self.writes += 1
        return LogFiles.pwrite(descriptor, content, position)

    def take(self) -> tuple[int, int, int]:
        taken = self.reads, self.read_bytes, self.writes
        self.reads = self.read_bytes = self.writes = 0
        return taken


COUNT = 40 * BLOCK_ENTRIES
BLOCK_BYTES = BLOCK_ENTRIES * ENTRY_BYTES


@pytest.fixture
def files(tmp_path: Path) -> CountedFiles:
    counted = CountedFiles()
    place_files(tmp_path, counted)
    return counted


def filled(path: Path, stable: int | None = None) -> SegmentAborts:
    """Many short transactions, of two offsets each, during a longer one if `stable` is given."""
    aborts = SegmentAborts(path, 0)
    for at in range(0, 2 * COUNT, 2):
        last_stable = at + 2 if stable is None else stable
        aborts.add(AbortedTransaction(7, at, at + 1, last_stable))
    return aborts


def test_addition_costs_one_write_however_many_there_are(
    tmp_path: Path, files: CountedFiles
) -> None:
    filled(tmp_path / "index")
    assert files.take() == (0, 0, COUNT)
    again = SegmentAborts(tmp_path / "index", COUNT)
    again.add(AbortedTransaction(7, 2 * COUNT, 2 * COUNT + 1, 2 * COUNT + 2))
    assert files.take() == (1, ENTRY_BYTES, 1)  # the last one, to compare


@pytest.mark.parametrize("at", [0, COUNT, 2 * COUNT - 2])
def test_search_reads_one_block(tmp_path: Path, files: CountedFiles, at: int) -> None:
    aborts = filled(tmp_path / "index")
    files.take()
    for _ in range(2):
        found: list[tuple[int, int]] = []
        assert aborts.collect(at, at + 2, found)
        assert found == [(7, at)]
        assert files.take() == (1, BLOCK_BYTES, 0)


def test_search_after_a_start_finds_its_block_by_halves(
    tmp_path: Path, files: CountedFiles
) -> None:
    filled(tmp_path / "index")
    files.take()
    aborts = SegmentAborts(tmp_path / "index", COUNT)
    found: list[tuple[int, int]] = []
    assert aborts.collect(COUNT, COUNT + 2, found)
    reads, read_bytes, _ = files.take()
    assert found == [(7, COUNT)]
    assert reads <= COUNT.bit_length()
    assert read_bytes <= BLOCK_BYTES + COUNT.bit_length() * ENTRY_BYTES


def test_search_behind_all_reads_nothing(tmp_path: Path, files: CountedFiles) -> None:
    aborts = filled(tmp_path / "index")
    files.take()
    assert not aborts.collect(2 * COUNT, 3 * COUNT, [])
    assert files.take() == (0, 0, 0)


def test_search_during_a_long_transaction_skips_what_begins_later(
    tmp_path: Path, files: CountedFiles
) -> None:
    """The last stable offsets do not tell that nothing else is in the range."""
    filled(tmp_path / "index", stable=0)
    aborts = SegmentAborts(tmp_path / "index", COUNT)
    files.take()
    for at in (0, COUNT, 10):
        found: list[tuple[int, int]] = []
        assert not aborts.collect(at, at + 2, found)
        assert found == [(7, at)]
        if at == COUNT:
            files.take()  # each block was looked at once
    assert files.take() == (1, BLOCK_BYTES, 0)


def test_memory_is_a_few_numbers_for_each_block(tmp_path: Path) -> None:
    aborts = filled(tmp_path / "index")
    kept = [each for each in vars(aborts).values() if hasattr(each, "itemsize")]
    assert sum(each.itemsize * len(each) for each in kept) == 3 * 8 * COUNT // BLOCK_ENTRIES


@pytest.mark.parametrize("position", [0, 1, 12, 20, ENTRY_BYTES, 10 * ENTRY_BYTES])
def test_changed_bytes_are_noticed(tmp_path: Path, position: int) -> None:
    path = tmp_path / "index"
    filled(path)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(DamagedTransactionIndex):
        SegmentAborts(path, COUNT).collect(0, 100, [])


def test_file_that_has_become_shorter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    aborts = filled(path)
    path.write_bytes(path.read_bytes()[: BLOCK_BYTES - 1])
    with pytest.raises(DamagedTransactionIndex):
        aborts.collect(0, 10, [])
    path.unlink()
    with pytest.raises(DamagedTransactionIndex):
        aborts.collect(0, 10, [])
