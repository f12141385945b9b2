"""Producer ids for idempotent producers, taken from the registry in blocks of a thousand.

A block is fetched before it is needed, so that new producers do not depend on the registry: the
first one at the start, as Kafka's brokers with ZooKeeper do, and the next when nine tenths of the
last one are used.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

log = logging.getLogger(__name__)

_BLOCK_PARTS: Final = 10
"""The next block is fetched when one part of so many is left."""


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
        self._block = range(0)
        """What is left of the block in use."""
        self._next_block: range | None = None
        self._few = 0
        """The next block is fetched when so many ids are left."""
        self._waiting: deque[Callable[[int | None], None]] = deque()
        self._is_fetching = False

    def fetch_ahead(self) -> None:
        """Fetch a block, unless one is being fetched or in reserve."""
        if not self._is_fetching and self._next_block is None:
            self._is_fetching = True
            self._fetch_block(self._on_block, self._on_failed)

    def next_id(self, on_done: Callable[[int | None], None]) -> None:
        """Call back with a new id, at once or when the next block has been fetched; None if the
        registry cannot be reached.
        """
        if not self._block and self._next_block is not None:
            self._block, self._next_block = self._next_block, None
            self._few = len(self._block) // _BLOCK_PARTS
        if self._block:
            producer_id, self._block = self._block[0], self._block[1:]
            on_done(producer_id)
        else:
            self._waiting.append(on_done)
        if len(self._block) <= self._few:
            self.fetch_ahead()

    def _on_block(self, block: range) -> None:
        self._is_fetching = False
        self._next_block = block
        waiting, self._waiting = self._waiting, deque()
        for on_done in waiting:
            self.next_id(on_done)

    def _on_failed(self, error: Exception) -> None:
        log.warning("cannot fetch producer ids from the registry: %r", error)
        self._is_fetching = False
        waiting, self._waiting = self._waiting, deque()
        for on_done in waiting:
            on_done(None)
