"""The leader's files as a follower reads them: also when their paths come to name other files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
    content = files.read(source)
    return None if content is None else bytes(content)


def test_region_of_a_file(files: SegmentFiles, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")

    assert read(files, source_of(path, 2, 3)) == b"234"
    assert read(files, source_of(path, 9, 1)) == b"9"
    assert read(files, source_of(path, 9, 2)) is None


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
