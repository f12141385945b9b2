"""Decides what remains of each batch in one cleaning, in the log's order. Pure.

This follows Kafka's `Cleaner.cleanInto`. Beside the offset map, its rules are: records of aborted
transactions are removed; a marker is removed once no record of its transaction remains and it was
kept for `delete.retention.ms`; the batch with the last sequence of a live producer stays, even
empty; so does the last batch of the cleanable range, or a new follower would never reach the end of
the log.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.log.cleaner.batch_filter import (
    GONE,
    Filtered,
    Horizon,
    empty_batch,
    filter_batch,
    filter_markers,
)
from cluster.log.cleaner.offset_map import OffsetMap
from cluster.log.cleaner.transactions import OpenTransactions
from cluster.model.ids import Offset
from cluster.records.batch import BatchHeader

NO_DATA: Final = Offset(-1)


class LastRecord(NamedTuple):
    """The newest record that a live producer wrote to the log."""

    last_data_offset: Offset
    """`NO_DATA` where it is a marker of its present epoch."""
    epoch: int


class BatchRules:
    """The rules for one cleaning. Lifecycle: call `clean` for every batch, starting at the first
    one."""

    def __init__(
        self,
        keys: OffsetMap,
        transactions: OpenTransactions,
        producers: Mapping[int, LastRecord],
        upper_offset: Offset,
        horizon: Horizon,
    ) -> None:
        """`producers` are keyed by id; records at or above `upper_offset` are not cleaned this
        time."""
        self._keys = keys
        self._transactions = transactions
        self._producers = producers
        self._last_offset = upper_offset - 1
        self._horizon = horizon

    def clean(self, header: BatchHeader, batch: bytes) -> Filtered:
        """Filter a batch that passed its checksum. Raises Refused(corrupt_message)."""
        if header.is_control:
            has_no_records = self._transactions.on_control_batch(header, memoryview(batch))
            if has_no_records and self._horizon.is_over(header):
                filtered = GONE
            else:
                filtered = filter_markers(
                    header, batch, self._horizon, has_no_transaction=has_no_records
                )
        elif self._transactions.on_batch(header):
            filtered = GONE
        else:
            filtered = filter_batch(header, batch, self._keys, self._horizon)
        if filtered.content is None and self._is_needed_empty(header):
            return empty_batch(header)
        return filtered

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        if header.last_offset == self._last_offset:
            return True
        if header.producer_id < 0:
            return False
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch
