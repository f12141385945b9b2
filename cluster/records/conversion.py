"""Converts messages of formats v0 and v1 to batches of format v2, as Kafka does.

Offsets, keys, values, timestamps (-1 in v0) and the codec are kept. The messages inside a
compressed one become one batch; uncompressed messages are gathered, because a batch's header is
larger than most messages. A batch has no producer and no leader epoch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Compression
from cluster.records.builder import batch_at_offsets
from cluster.records.legacy import Message, records_of_message
from cluster.records.reader import Record

GATHERED_BYTES: Final = 16 * 1024
"""Uncompressed messages are gathered into one batch up to about this size."""


def converted(messages: Iterable[Message]) -> Iterator[bytearray]:
    """The batches with the content of these messages, in order.

    The checksum of each message, including inner ones, is verified. Raises Refused(corrupt_message)
    after the batches that precede the damage.
    """
    single = _Gathered()
    try:
        for message in messages:
            if message.compression is Compression.NONE:
                _check(message)
                if not single.takes(message):
                    yield single.batch()
                    single = _Gathered()
                single.add(message)
            else:
                batch = _of_compressed(message)
                if single.records:
                    yield single.batch()
                    single = _Gathered()
                yield batch
    except Refused:
        if single.records:
            yield single.batch()
        raise
    if single.records:
        yield single.batch()


@dataclass(slots=True)
class _Gathered:
    """Uncompressed messages that become one batch."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0
    is_log_append_time: bool = False

    def takes(self, message: Message) -> bool:
        """Whether a message may join the same batch."""
        if not self.records:
            return True
        if self.size_bytes + message.size_bytes > GATHERED_BYTES:
            return False
        last = self.records[-1]
        if message.offset <= last.offset or message.offset - self.records[0].offset >= 2**31:
            return False
        # With LogAppendTime all records of a batch share one timestamp.
        return message.is_log_append_time == self.is_log_append_time and (
            not self.is_log_append_time or message.timestamp_ms == last.timestamp_ms
        )

    def add(self, message: Message) -> None:
        """Add a message at the end."""
        self.is_log_append_time = message.is_log_append_time
        self.size_bytes += message.size_bytes
        ((_, record),) = records_of_message(message)
        self.records.append(record)

    def batch(self) -> bytearray:
        """Build the batch of all added messages."""
        return batch_at_offsets(self.records, is_log_append_time=self.is_log_append_time)


def _of_compressed(message: Message) -> bytearray:
    _check(message)
    inside = records_of_message(message)
    last_offset = -1
    for each, record in inside:
        _check(each)
        if record.offset <= last_offset:
            raise Refused(
                ErrorCode.corrupt_message,
                f"offset {record.offset} after {last_offset} in a compressed message",
            )
        last_offset = record.offset
    return batch_at_offsets(
        [record for _, record in inside],
        codec=message.compression,
        is_log_append_time=message.is_log_append_time,
    )


def _check(message: Message) -> None:
    if not message.is_valid:
        raise Refused(
            ErrorCode.corrupt_message, f"wrong checksum of the message at offset {message.offset}"
        )
