"""A log with messages of formats v0 and v1 is rewritten as batches v2 when it is opened."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.log.old_formats import convert_old_segments
from cluster.model.errors import StorageFailed
from cluster.records.batch import Compression
from cluster.records.reader import Record
from tests.support.old_messages import old_compressed, old_message
from tests.unit.log.log_builder import (
    SMALL,
    a_batch,
    all_bytes,
    append,
    offset_for_timestamp,
    open_log,
    read_all,
)

STAMP = 1_600_000_000_000


def records_from(offset: int, count: int, magic: int = 1) -> list[Record]:
    return [
        Record(offset + n, STAMP + offset + n if magic else -1, b"k%d" % n, b"v%d" % (offset + n))
        for n in range(count)
    ]


def single(records: Sequence[Record], magic: int = 1) -> bytes:
    return b"".join(old_message(record, magic) for record in records)


def a_partition(home: Path, segments: dict[int, bytes]) -> Path:
    """A directory as Kafka leaves it: segments by base offset, with outdated index positions."""
    directory = home / "orders-0"
    directory.mkdir(parents=True)
    for base, content in segments.items():
        (directory / f"{base:020d}.log").write_bytes(content)
        for suffix in ("index", "timeindex"):
            (directory / f"{base:020d}.{suffix}").write_bytes(b"")
    return directory


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_log_of_an_old_format_is_converted_and_accepts_appends(
    tmp_path: Path, magic: int, is_clean: bool
) -> None:
    records = records_from(0, 60, magic)
    a_partition(
        tmp_path,
        {
            0: single(records[:20], magic),
            20: old_compressed(records[20:40], magic, Compression.GZIP),
            40: single(records[40:50], magic)
            + old_compressed(records[50:], magic, Compression.LZ4),
        },
    )
    log = open_log(tmp_path, clean=is_clean)
    assert read_all(log) == records
    assert append(log, a_batch(2)).base_offset == 60
    if magic:
        found = offset_for_timestamp(log, STAMP + 25, upper_offset=log.log_end_offset)
        assert found is not None
        assert found.offset == 25
    log.close(flush=True)
    assert read_all(open_log(tmp_path))[:60] == records


def test_gaps_of_a_compacted_log_stay(tmp_path: Path) -> None:
    records = [record for record in records_from(100, 30) if record.offset % 3]
    a_partition(tmp_path, {100: single(records)})
    assert read_all(open_log(tmp_path)) == records


def test_conversion_handles_alternating_messages_and_batches(tmp_path: Path) -> None:
    old = records_from(0, 4)
    log = open_log(tmp_path / "new")
    for _ in range(4):
        append(log, a_batch(1))
    batches, new = all_bytes(log), read_all(log)
    size = len(batches) // 4
    a_partition(tmp_path, {0: single(old[:2]) + batches[2 * size : 3 * size] + single(old[3:])})
    assert read_all(open_log(tmp_path)) == [*old[:2], new[2], old[3]]


def test_a_torn_end_is_cut_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    records = records_from(0, 5)
    content = single(records)
    a_partition(tmp_path, {0: content[:-3]})
    assert read_all(open_log(tmp_path, clean=False)) == records[:4]
    (line,) = [record.getMessage() for record in caplog.records if "cut at" in record.getMessage()]
    assert f"cut at byte {len(content) * 4 // 5} of {len(content) - 3}" in line


def test_conversion_drops_preallocated_space_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = records_from(0, 5)
    a_partition(tmp_path, {0: single(records) + bytes(500)})
    assert read_all(open_log(tmp_path, clean=False)) == records
    warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [line for line in warnings if "leader-epoch-checkpoint" not in line] == []


def test_damage_before_the_last_segment_refuses_the_log_and_changes_nothing(tmp_path: Path) -> None:
    records = records_from(0, 20)
    damaged = bytearray(single(records[:10]))
    damaged[-1] ^= 1
    directory = a_partition(tmp_path, {0: bytes(damaged), 10: single(records[10:])})
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(StorageFailed, match=r"\.log has messages of an old format .* import-log"):
        open_log(tmp_path)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_segment_that_begins_with_a_batch_is_not_touched(tmp_path: Path) -> None:
    directory = a_partition(tmp_path, {0: bytes(a_batch(3)), 3: b"", 5: bytes(100)})
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    convert_old_segments(directory, [0, 3, 5])
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_files_of_an_interrupted_conversion_are_removed(tmp_path: Path) -> None:
    records = records_from(0, 5)
    directory = a_partition(tmp_path, {0: single(records)})
    (directory / f"{0:020d}.log.cleaned").write_bytes(b"half of it")
    (directory / f"{0:020d}.index").unlink()  # a crash between the removal and the rename
    assert read_all(open_log(tmp_path, clean=False)) == records
    assert list(directory.glob("*.cleaned")) == []


def test_a_directory_that_cannot_be_written_is_a_storage_failure(tmp_path: Path) -> None:
    directory = a_partition(tmp_path, {0: single(records_from(0, 5))})
    (directory / f"{0:020d}.log.cleaned").mkdir()
    with pytest.raises(StorageFailed, match="cannot convert"):
        convert_old_segments(directory, [0])


def test_a_converted_log_has_batches_of_usual_size(tmp_path: Path) -> None:
    records = [Record(n, STAMP, None, bytes(100)) for n in range(2_000)]
    directory = a_partition(tmp_path, {0: single(records)})
    before = sum(path.stat().st_size for path in directory.glob("*.log"))
    log = open_log(tmp_path, SMALL)
    assert log.size_bytes < before
    assert log.log_end_offset == 2_000
