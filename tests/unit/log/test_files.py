"""The file interface of logs: which object serves a path, and the calls that it receives."""

import errno
import gc
import mmap
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cluster.log.files import LogFiles, NewFile, files_of, place_files
from cluster.log.log_directory import LogDirectory
from cluster.log.options import LogOptions
from cluster.model.errors import StorageFailed
from cluster.model.ids import LeaderEpoch
from tests.unit.log.log_builder import a_batch, append, open_log, read_all


class CountingFiles(LogFiles):
    """Counts its calls."""

    sees_each_access = True

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        for name in ("pwritev", "map", "sync_data", "sync", "open", "rename", "unlink"):
            setattr(self, name, self._counted(name, getattr(LogFiles, name)))

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return call(*arguments, **named)

        return counted


def test_files_of_a_log_directory_are_reached_through_its_object(tmp_path: Path) -> None:
    one, two = LogFiles(), LogFiles()
    place_files(tmp_path / "one", one)
    place_files(tmp_path / "two", two)
    assert files_of(tmp_path / "one") is one
    assert files_of(tmp_path / "one" / "t-0" / "0.log") is one
    assert files_of(str(tmp_path / "two" / "t-0")) is two
    assert files_of(tmp_path / "one-more" / "t-0") is files_of(tmp_path)
    assert files_of(Path("relative") / "0.log") is files_of(tmp_path)


def test_object_of_a_log_directory_is_forgotten_with_it(tmp_path: Path) -> None:
    files = LogFiles()
    place_files(tmp_path, files)
    del files
    gc.collect()
    assert files_of(tmp_path) is files_of(Path("/"))


def test_each_append_and_read_is_seen_where_that_is_asked_for(tmp_path: Path) -> None:
    files = CountingFiles()
    place_files(tmp_path, files)
    log = open_log(tmp_path, LogOptions())
    for step in range(3):
        append(log, a_batch())
        assert files.calls["pwritev"] == step + 1
    before = files.calls["map"]
    assert len(read_all(log)) == 3
    assert files.calls["map"] > before
    log.flush()
    assert files.calls["sync_data"] == 1
    log.close(flush=True)
    assert len(read_all(open_log(tmp_path))) == 3


def test_small_appends_are_copies_into_a_mapping_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CountingFiles()
    files.sees_each_access = False
    place_files(tmp_path, files)
    log = open_log(tmp_path, LogOptions())
    append(log, a_batch())
    before = Counter(files.calls)
    for _ in range(10):
        append(log, a_batch())
    assert files.calls == before


def test_read_that_fails_is_an_error_of_the_storage(tmp_path: Path) -> None:
    files = CountingFiles()
    place_files(tmp_path, files)
    log = open_log(tmp_path, LogOptions())
    append(log, a_batch())

    def refuse(*_: object, **__: object) -> mmap.mmap:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.map = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(StorageFailed, match="cannot map"):
        read_all(log)


def test_log_directory_opens_with_the_given_object(tmp_path: Path) -> None:
    files = CountingFiles()
    directory = LogDirectory.open(tmp_path / "disk", "cluster", 1, files)
    assert directory.files is files
    assert files.calls["rename"] >= 1, "its first file was written"
    directory.close()


def test_epochs_and_snapshots_are_written_through_the_object(tmp_path: Path) -> None:
    files = CountingFiles()
    place_files(tmp_path, files)
    log = open_log(tmp_path, LogOptions())
    log.epochs.begin(LeaderEpoch(1), log.log_end_offset)
    assert files.calls["rename"] == 1
    append(log, a_batch(), 1)
    log.close(flush=True)
    assert files.calls["rename"] == 2
    assert files.calls["sync"] > 0


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 19])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    files, path = LogFiles(), tmp_path / "file"
    files.write_file(path, content)
    assert files.read_file(path) == content
    with NewFile(path) as out:
        for start in range(0, size, 700_000):
            out.write(content[start : start + 700_000])
        out.sync()
        assert out.size_bytes == size
    assert files.read_file(path) == content
