"""A cleaning and its recovery, killed at every write, rename, unlink and sync.

After each kill, the next start opens a log with the newest record of every key exactly once.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cluster.log.deleted_files import DeletedFiles
from cluster.log.files import LogFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from cluster.records.builder import ProducerIdentity
from tests.unit.log.cleaner.cleaned_log import (
    COMPACTED,
    RETENTION_MS,
    clean,
    end_transaction,
    put,
    records,
)
from tests.unit.log.log_builder import NOW_MS, PARTITION, open_log

SECTIONS = 3


class Killed(BaseException):
    """The process is dead: none of its later calls has an effect."""


class Mortal:
    """Counts disk operations and suppresses all of them from a chosen one on."""

    def __init__(self, lives: int) -> None:
        self.lives = lives
        self.done = 0

    def guard(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*arguments: Any, **options: Any) -> Any:
            if self.done >= self.lives:
                raise Killed
            self.done += 1
            return act(*arguments, **options)

        return acted

    def write(self, descriptor: int, content: bytes | memoryview) -> int:
        """Write, or write only half if this is the last operation."""
        if self.done >= self.lives:
            raise Killed
        self.done += 1
        is_last = self.done == self.lives
        return os.write(descriptor, content[: len(content) // 2] if is_last else content)


@contextmanager
def killed_after(lives: int) -> Iterator[None]:
    """Allow so many disk operations within the block."""
    mortal = Mortal(lives)
    calls = {
        "rename": mortal.guard(os.rename),
        "unlink": mortal.guard(os.unlink),
        "write": mortal.write,
        "sync": mortal.guard(lambda _: None),
    }
    with ExitStack() as patched:
        for name, call in calls.items():
            patched.enter_context(patch.object(LogFiles, name, staticmethod(call)))
        yield


def a_dirty_log(root: Path) -> None:
    """Create segments that lose all, some or no records, with transactions and expired
    tombstones."""
    log = open_log(root, COMPACTED)
    for section in range(SECTIONS):
        put(log, [(b"hot", b"%d" % section), (b"own-%d" % section, bytes(300))])
        put(log, [(b"hot", bytes(250)), (b"warm-%d" % (section % 3), b"%d" % section)])
        producer = ProducerIdentity(40 + section % 2, 0, 2 * section)
        put(log, [(b"in-doubt", b"x%d" % section), (b"t", None)], producer=producer)
        in_transaction = ProducerIdentity(50, 0, section)
        put(log, [(b"maybe", b"%d" % section)], producer=in_transaction, is_transactional=True)
        end_transaction(log, in_transaction, commits=section % 2 == 0)
    put(log, [(b"warm-0", None)])
    put(log, [(b"active", bytes(500))])
    put(log, [(b"active", bytes(500))])
    clean(log, high_watermark=log.segments[2].base_offset)
    log.close(flush=False)


def open_again(root: Path, *, is_clean: bool) -> PartitionLog:
    return PartitionLog.open(
        root / str(PARTITION),
        PARTITION,
        COMPACTED,
        NOW_MS,
        clean_shutdown=is_clean,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        deleted_files=DeletedFiles(later=lambda delay_ms, call: None),
    )


def facts(log: PartitionLog) -> Any:
    """The facts that no crash may change."""
    committed = [
        one for one in records(log) if one.key != b"maybe" or int(one.value or b"1") % 2 == 0
    ]
    newest = {one.key: one for one in committed}
    return (
        {key: one for key, one in newest.items() if one.value is not None},
        {p: (e.epoch, e.last_sequence) for p, e in log.producers.entries.items()},
        log.log_end_offset,
    )


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    with patch.object(LogFiles, "sync", staticmethod(lambda _: None)):
        yield


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    a_dirty_log(tmp_path / "prepared")
    return tmp_path / "prepared"


def cleaning(root: Path) -> None:
    log = open_again(root, is_clean=True)
    clean(log, wall_ms=NOW_MS + 2 * RETENTION_MS)


def check(root: Path, before: Any, written: dict[int, Any]) -> None:
    log = open_again(root, is_clean=False)
    after = records(log)
    offsets = [one.offset for one in after]
    assert offsets == sorted(set(offsets))
    assert all(one == written[one.offset] for one in after)
    assert facts(log) == before
    names = {path.name for path in (root / str(PARTITION)).iterdir()}
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    # It can be cleaned like any other.
    clean(log, wall_ms=NOW_MS + 9 * RETENTION_MS)
    assert facts(log) == before


@pytest.mark.slow
def test_cleaning_survives_a_kill_at_every_operation(prepared, tmp_path):
    log = open_log(prepared, COMPACTED)
    before, written = facts(log), {one.offset: one for one in records(log)}
    groups = len(log.segments)
    del log
    lives, root = 0, tmp_path / "killed"
    seen_swaps = 0
    while True:
        shutil.copytree(prepared, root)
        try:
            with killed_after(lives):
                cleaning(root)
        except Killed:
            names = [path.name for path in (root / str(PARTITION)).iterdir()]
            if any(name.endswith(".swap") for name in names):
                seen_swaps += 1
                if seen_swaps % 4 == 1:  # each has a few renames and unlinks of its own
                    kill_recovery(root, tmp_path / "again", before, written)
            check(root, before, written)
        else:
            break
        shutil.rmtree(root)
        lives += 1
    check(root, before, written)
    assert groups > 4
    assert seen_swaps > 10


def kill_recovery(root: Path, copy: Path, before: Any, written: dict[int, Any]) -> None:
    lives = 0
    while True:
        shutil.copytree(root, copy)
        try:
            with killed_after(lives):
                open_again(copy, is_clean=False)
        except Killed:
            check(copy, before, written)
        else:
            shutil.rmtree(copy)
            return
        shutil.rmtree(copy)
        lives += 1


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_rename_that_fails_leaves_the_log_as_it_was(prepared, suffix):
    log = open_again(prepared, is_clean=True)
    before = records(log)
    rename = os.rename

    def refuse(source: Any, target: Any) -> None:
        if str(target).endswith(f"{suffix}.swap"):
            raise PermissionError(1, "Operation not permitted", str(source))
        rename(source, target)

    refusing = patch.object(LogFiles, "rename", staticmethod(refuse))
    with refusing, pytest.raises(StorageFailed, match="cannot rename"):
        clean(log, wall_ms=NOW_MS + 2 * RETENTION_MS)
    assert records(log) == before
    left = [path.name for path in log.directory.iterdir()]
    first = f"{log.segments[0].base_offset:020d}"
    assert not [n for n in left if n.endswith(".swap") or (n.startswith(first) and "cleaned" in n)]
    clean(log, wall_ms=NOW_MS + 2 * RETENTION_MS)
    assert len(records(log)) < len(before)
