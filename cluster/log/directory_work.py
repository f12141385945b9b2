"""Creates the directories of new partitions and removes those of deleted ones in the background.

A new log has nothing to lose before its first record, so nobody waits for its files: they are made
one log after the other, or by the first append if that comes before. A deleted log's directory is
renamed, and unlinked later (see `directories`). After a crash, the controller's next full update
repeats the interrupted work.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster.log.deleted_files import DeletedFiles, Later, OnFailed
from cluster.log.directories import remove_directory, rename_to_deleted
from cluster.model.errors import StorageFailed
from cluster.runtime.background_thread import Once, Post, run_now

log = logging.getLogger(__name__)


class DirectoryWork:
    """The queue of directory work. Owned by the broker's thread.

    `post` and `post_removal` hand calls to threads, in order.

    Invariant: work on one path happens in the order of the requests.
    """

    def __init__(
        self,
        post: Post = run_now,
        post_removal: Post = run_now,
        later: Later | None = None,
        on_failed: OnFailed = lambda _path, _failure: None,
    ) -> None:
        """Without `later`, deleted files are unlinked at once.

        `on_failed` is called, on any thread, for directories that could not be created or renamed,
        and for those whose deleted segments could not.
        """
        self.deleted_files = DeletedFiles(post, post_removal, later, on_failed)
        """The deleted segments of the logs in these directories."""
        self._later = later
        self._on_failed = on_failed
        self._post = post
        self._post_removal = post_removal
        self._unmade: dict[Path, Once] = {}
        self._unmoved: dict[Path, Once] = {}
        """Renames that were asked for and may not be done yet, by the directory's path."""

    def create(self, directory: Path, make: Callable[[], None]) -> Callable[[], None]:
        """Create a directory in the background; the returned function waits and raises
        StorageFailed."""
        before = self._unmoved.get(directory)

        def make_in_turn() -> None:
            if before is not None:
                before.run()
            make()

        once = Once(make_in_turn)
        self._unmade[directory] = once
        self._post(partial(self._run, once, self._unmade, directory))
        return once.run

    def delete(self, directory: Path, delay_ms: int) -> None:
        """Rename a directory, if it was created at all, and remove it after `delay_ms`."""
        creation = self._unmade.pop(directory, None)
        if creation is None or not creation.cancel():
            self.doom(directory, delay_ms)()

    def doom(self, directory: Path, delay_ms: int) -> Callable[[], None]:
        """Delete a directory whose files are still needed for a short time.

        The deletion begins when the returned function is called, or when another directory gets the
        path.
        """
        end_work_on_files = self.deleted_files.withdraw(directory)

        def move() -> None:
            end_work_on_files()
            doomed = rename_to_deleted(directory)
            if self._later is None:
                self.remove_later(doomed)
            else:
                self._later(delay_ms, partial(self.remove_later, doomed))

        once = Once(move)
        self._unmoved[directory] = once
        return partial(self._post, partial(self._run, once, self._unmoved, directory))

    def free(self, directory: Path) -> None:
        """Wait until the path of a directory to be deleted is free. Raises StorageFailed."""
        unmoved = self._unmoved.get(directory)
        if unmoved is not None:
            unmoved.run()

    @staticmethod
    def remove(doomed: Path) -> None:
        """Unlink a renamed directory."""
        try:
            remove_directory(doomed)
        except StorageFailed as failure:
            log.error("%s", failure)  # noqa: TRY400 - one line; the next start retries

    def remove_later(self, doomed: Path) -> None:
        """Unlink a renamed directory, perhaps from an earlier run, on the thread for removals."""
        self._post_removal(partial(self.remove, doomed))

    def _run(self, once: Once, waiting: dict[Path, Once], directory: Path) -> None:
        try:
            once.run()
        except StorageFailed as failure:
            log.error("%s", failure)  # noqa: TRY400 - one line; the next user of the path retries
            self._on_failed(directory, failure)
            return
        if waiting.get(directory) is once:
            waiting.pop(directory, None)
