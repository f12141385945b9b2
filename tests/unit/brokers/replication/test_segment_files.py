"""The leader's files as a follower reads them: also when their paths come to name other files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.replication import segment_files
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.protocol.peer.replication import FileSource


@pytest.fixture
def files() -> Iterator[SegmentFiles]:
    opened = SegmentFiles()
    yield opened
    opened.close()


def source_of(path: Path, position: int, size_bytes: int) -> FileSource:
    return FileSource(str(path), path.stat().st_ino, position, size_bytes)


def read(files: SegmentFiles, source: FileSource) -> bytes | None:
    content = files.read(source.path, source.inode, source.position, source.size_bytes)
    return None if content is None else bytes(content)


def test_region_of_a_file(files: SegmentFiles, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")

    assert read(files, source_of(path, 2, 3)) == b"234"
    assert read(files, source_of(path, 9, 1)) == b"9"
    assert read(files, source_of(path, 9, 2)) is None


def test_reading_an_open_file_does_not_look_for_its_log_directory(
    files: SegmentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    assert read(files, source_of(path, 0, 1)) == b"0"
    monkeypatch.delattr(segment_files, "files_of")

    assert read(files, source_of(path, 2, 3)) == b"234"


def test_missing_file(files: SegmentFiles, tmp_path: Path) -> None:
    assert read(files, FileSource(str(tmp_path / "segment"), 1, 0, 1)) is None


def test_another_file_at_the_same_path_is_not_taken_for_the_old_one(
    files: SegmentFiles, tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"first")
    first = source_of(path, 0, 5)
    assert read(files, first) == b"first"

    path.unlink()
    path.write_bytes(b"other")

    assert read(files, source_of(path, 0, 5)) == b"other"
    assert read(files, first) is None


def is_open(path: Path) -> bool:
    """Whether this process has it open, under its name or deleted."""
    held = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return any(str(path) in target_of(link) for link in held)


def target_of(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # of the listing itself
        return ""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_deleted_file_is_closed_with_the_next_sweep(files: SegmentFiles, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    source = source_of(path, 0, 10)
    assert read(files, source) == b"0123456789"
    deleted = path.rename(tmp_path / "segment.deleted")
    files.sweep()
    assert is_open(deleted), "it may still be read"
    deleted.unlink()
    files.sweep()
    assert not is_open(deleted)
    assert read(files, source) is None


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_file_that_is_not_read_for_ten_sweeps_is_closed(
    files: SegmentFiles, tmp_path: Path
) -> None:
    read_again, left_alone = tmp_path / "one", tmp_path / "two"
    for path in (read_again, left_alone):
        path.write_bytes(b"0123456789")
        assert read(files, source_of(path, 0, 1)) == b"0"
    for _ in range(11):
        assert read(files, source_of(read_again, 0, 1)) == b"0"
        assert is_open(left_alone)
        files.sweep()
    assert is_open(read_again)
    assert not is_open(left_alone)
    assert read(files, source_of(left_alone, 0, 1)) == b"0"
