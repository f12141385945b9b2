"""The clients that began transactions in partitions of this broker, for explanations. Pure.

The log has only their producer ids; of a transaction that no coordinator knows, this is all that
tells who wrote it.
"""

from collections import OrderedDict
from typing import Final

from cluster.coordinator.transactions.held_back import Writer
from cluster.coordinator.transactions.requests import ClientName
from cluster.model.kept_names import kept_name

WRITERS_MAX: Final = 10_000
"""One broker remembers so many, which takes some 5 MB."""


class RecentWriters:
    """Remembers a client for each producer id; forgets the one that began none for longest."""

    def __init__(self, most: int = WRITERS_MAX) -> None:
        self._most = most
        self._writers: OrderedDict[int, Writer] = OrderedDict()

    def note(
        self, producer_id: int, transactional_id: str | None, client_id: str | None, host: str
    ) -> None:
        """A client writes the first batch of a transaction to a partition."""
        known = self._writers.get(producer_id)
        writer = Writer(
            kept_name(transactional_id or ""), ClientName(kept_name(client_id or ""), host)
        )
        if known == writer:
            self._writers.move_to_end(producer_id)
            return
        self._writers[producer_id] = writer
        self._writers.move_to_end(producer_id)
        if len(self._writers) > self._most:
            self._writers.popitem(last=False)

    def of(self, producer_id: int) -> Writer | None:
        """The client that began the producer's last transaction here."""
        return self._writers.get(producer_id)
