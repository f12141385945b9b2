"""Producer ids for idempotent producers, taken from the registry in blocks of a thousand."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

log = logging.getLogger(__name__)


class BlockSource(Protocol):
    """Fetches a block on another thread and calls back on the broker's."""

    def __call__(
        self, on_done: Callable[[range], None], on_failed: Callable[[Exception], None]
    ) -> None:
        """A block of ids that no other broker has."""
        ...


class ProducerIds:
    """Invariant: an id is handed out once in the life of the cluster."""

    def __init__(self, fetch_block: BlockSource) -> None:
        self._fetch_block = fetch_block
        self._block: Iterator[int] = iter(())
        self._waiting: deque[Callable[[int | None], None]] = deque()
        self._is_fetching = False

    def next_id(self, on_done: Callable[[int | None], None]) -> None:
        """Call back with a new id, at once or when the next block has been fetched; None if the
        registry cannot be reached.
        """
        producer_id = next(self._block, None)
        if producer_id is not None:
            on_done(producer_id)
            return
        self._waiting.append(on_done)
        if not self._is_fetching:
            self._is_fetching = True
            self._fetch_block(self._on_block, self._on_failed)

    def _on_block(self, block: range) -> None:
        self._is_fetching = False
        self._block = iter(block)
        waiting, self._waiting = self._waiting, deque()
        for on_done in waiting:
            self.next_id(on_done)

    def _on_failed(self, error: Exception) -> None:
        log.warning("cannot fetch producer ids from the registry: %r", error)
        self._is_fetching = False
        waiting, self._waiting = self._waiting, deque()
        for on_done in waiting:
            on_done(None)
