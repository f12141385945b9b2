"""Unlinks the directories of deleted partitions on a thread of its own, however long it takes."""

import logging
import queue
import threading
from pathlib import Path

from cluster.brokers.log.directories import remove_directory
from cluster.model.errors import StorageFailed

log = logging.getLogger(__name__)


class RemovalThread:
    """Lifecycle: any number of `remove`, then `close`. What is left then goes at the next start."""

    def __init__(self) -> None:
        self._doomed: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="log-removal", daemon=True)
        self._thread.start()

    def remove(self, directory: Path) -> None:
        """Remove a directory that was set aside, in its turn."""
        self._doomed.put(directory)

    def close(self) -> None:
        """Finish the one that is under way."""
        self._is_closing = True
        self._doomed.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (directory := self._doomed.get()) is not None and not self._is_closing:
            try:
                remove_directory(directory)
            except StorageFailed as failure:
                log.error("%s", failure)  # noqa: TRY400 - one line; the next start tries again
