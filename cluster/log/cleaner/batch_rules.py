"""What becomes of each batch of a log in one cleaning, told in the log's order. Pure.

Kafka: `Cleaner.cleanInto`, whose rules beside the offset map are: records of aborted transactions
go; a marker goes once nothing of its transaction is left and it was kept for `delete.retention.ms`;
the batch that tells the last sequence of a live producer stays, if need be empty; so does the last
batch of what can be cleaned, or a new follower would never reach the end of the log.
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
    """The newest thing that a live producer has written to the log."""

    last_data_offset: Offset
    """`NO_DATA` where it is a marker of its present epoch."""
    epoch: int


class BatchRules:
    """Lifecycle: `clean` for every batch, from the first of the log on."""

    def __init__(
        self,
        keys: OffsetMap,
        transactions: OpenTransactions,
        producers: Mapping[int, LastRecord],
        upper_offset: Offset,
        horizon: Horizon,
    ) -> None:
        """`producers` by id; records at or above `upper_offset` are never cleaned this time."""
        self._keys = keys
        self._transactions = transactions
        self._producers = producers
        self._last_offset = upper_offset - 1
        self._horizon = horizon

    def clean(self, header: BatchHeader, batch: bytes) -> Filtered:
        """What stays of a batch that passed its checksum. Raises Refused(corrupt_message)."""
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
