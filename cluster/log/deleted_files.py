"""Files of deleted segments: first renamed to `.deleted`, unlinked `file.delete.delay.ms` later.

This follows Kafka's `LocalLog.deleteSegmentFiles`; after a crash the next start removes the rest.
The broker's thread chooses the segments to delete, and other threads rename and unlink the files.
The oldest segment is renamed first, so that a crash in between leaves no gap in the log. Readers
that hold a segment's file open can continue to read it.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.files import files_of
from cluster.log.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from cluster.log.segment import Segment
from cluster.log.segment_paths import SEGMENT_SUFFIXES, segment_path
from cluster.model.errors import StorageFailed
from cluster.runtime.background_thread import InOrder, Post, run_now

log = logging.getLogger(__name__)

DELETED_SUFFIX: Final = ".deleted"
TRY_AGAIN_MS: Final = 60_000
"""Pause after a file could not be renamed or unlinked."""
_FILES_AND_SNAPSHOT: Final = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)

Later = Callable[[int, Callable[[], None]], object]
"""Makes a call on the broker's thread after so many milliseconds; may be used on any thread."""


OnFailed = Callable[[Path, StorageFailed], None]


class _Doomed(NamedTuple):
    segment: Segment
    """Held until its files are renamed: so a thread unmaps them, and not the broker's."""
    suffixes: tuple[str, ...]


class _Names(NamedTuple):
    base_offset: int
    suffixes: tuple[str, ...]


class _Removals:
    """The deleted segments of one log. Used on several threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.renames = InOrder(self._rename)
        self.has_failed = False
        """Whether the last attempt failed, which was logged."""
        self.is_withdrawn = False

    def withdraw(self) -> None:
        """Stop renaming and unlinking files."""
        self.is_withdrawn = True
        self.renames.cancel()

    def remove(self, names: list[_Names]) -> None:
        """Unlink renamed files and drop them from the list. Raises StorageFailed."""
        while names and not self.is_withdrawn:
            for suffix in names[-1].suffixes:
                path = (
                    f"{segment_path(self.directory, names[-1].base_offset, suffix)}{DELETED_SUFFIX}"
                )
                try:
                    files_of(path).unlink(path)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise StorageFailed(f"cannot delete {path}: {error.strerror}") from error
            names.pop()

    def _rename(self, doomed: _Doomed) -> None:
        for suffix in doomed.suffixes:
            path = segment_path(self.directory, doomed.segment.base_offset, suffix)
            try:
                files_of(path).rename(path, f"{path}{DELETED_SUFFIX}")
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageFailed(f"cannot rename {path}: {error.strerror}") from error


class DeletedFiles:
    """The deleted segments of all logs of one broker. Owned by the broker's thread.

    Invariant: the segments of one log are renamed in the order of their deletion.
    """

    def __init__(
        self,
        post: Post = run_now,
        post_removal: Post = run_now,
        later: Later | None = None,
        on_failed: OnFailed = lambda _path, _failure: None,
    ) -> None:
        """`post` runs renames on a thread and `post_removal` runs unlinks; both preserve the order.

        Without `later`, files are unlinked at once, and a failure is retried at the next deletion.
        `on_failed` is called, on any thread, for files that could not be renamed or unlinked.
        """
        self._on_failed = on_failed
        self._post = post
        self._post_removal = post_removal
        self._later = later
        self._removals: dict[Path, _Removals] = {}

    def delete(self, directory: Path, segments: Sequence[Segment], delay_ms: int) -> None:
        """Rename segments of a log, with their producer snapshots, and unlink them later.

        `segments` is ordered oldest first and must no longer be part of the log. This neither
        blocks nor raises: a failure is logged in one line and the deletion is retried.
        """
        removals, names = self._add(directory, segments, ())
        self._post(partial(self._rename, removals))
        self._unlink_later(removals, names, delay_ms)

    def delete_now(
        self,
        directory: Path,
        segments: Sequence[Segment],
        delay_ms: int,
        *,
        kept_snapshots: Collection[int] = (),
    ) -> None:
        """Like `delete`, but rename the files before returning, so that their names are free.

        `kept_snapshots` are the base offsets of segments whose producer snapshots stay. Raises
        StorageFailed if some files were not renamed; they are retried.
        """
        removals, names = self._add(directory, segments, kept_snapshots)
        try:
            removals.renames.run()
        finally:
            self._unlink_later(removals, names, delay_ms)

    def settle(self, directory: Path) -> None:
        """Wait until no file of a log is left to rename, so that all names are free.

        Raises StorageFailed.
        """
        removals = self._removals.get(directory)
        if removals is not None:
            removals.renames.run()

    def withdraw(self, directory: Path) -> Callable[[], None]:
        """Prepare the removal of a log's directory; the returned function stops work on its files.

        Call it, on any thread, before another directory can take the name.
        """
        removals = self._removals.pop(directory, None)
        return _nothing if removals is None else removals.withdraw

    def _add(
        self, directory: Path, segments: Sequence[Segment], kept_snapshots: Collection[int]
    ) -> tuple[_Removals, list[_Names]]:
        removals = self._removals.get(directory)
        if removals is None:
            removals = self._removals[directory] = _Removals(directory)
        doomed = [
            _Doomed(
                one, SEGMENT_SUFFIXES if one.base_offset in kept_snapshots else _FILES_AND_SNAPSHOT
            )
            for one in segments
        ]
        names = [_Names(one.segment.base_offset, one.suffixes) for one in doomed]
        removals.renames.add(doomed)
        return removals, names

    def _unlink_later(self, removals: _Removals, names: list[_Names], delay_ms: int) -> None:
        def unlink() -> None:
            self._post_removal(partial(self._unlink, removals, names))

        if self._later is None:
            unlink()
        else:
            self._later(delay_ms, unlink)

    # On other threads

    def _rename(self, removals: _Removals) -> None:
        try:
            removals.renames.run()
        except StorageFailed as failure:
            self._note_failure(removals, failure)

    def _unlink(self, removals: _Removals, names: list[_Names]) -> None:
        try:
            removals.renames.run()
            removals.remove(names)
        except StorageFailed as failure:
            self._note_failure(removals, failure)
            if self._later is not None:
                self._unlink_later(removals, names, TRY_AGAIN_MS)
        else:
            removals.has_failed = False

    def _note_failure(self, removals: _Removals, failure: StorageFailed) -> None:
        """Log a failure, unless the previous attempt failed too."""
        if not removals.has_failed:
            removals.has_failed = True
            log.error("%s; it will be retried", failure)
        self._on_failed(removals.directory, failure)


def _nothing() -> None:
    return
