"""Decodes fetched batches into messages, as a consumer does. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster.client.fetch_requests import Fetched
from cluster.model.errors import Refused
from cluster.records.batch import BatchHeader, batches_of, checksum
from cluster.records.markers import read_marker
from cluster.records.reader import Headers, records_of_batch

RECORD: Final = "record"
DAMAGED: Final = "damaged"
PLAIN_MAX_BYTES: Final = 64 * 1024 * 1024
"""Decompressed records of one batch: one that has more is not decoded."""


class Message(NamedTuple):
    """A record, the marker of a transaction, or a batch that cannot be decoded."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    batch: BatchHeader
    kind: str = RECORD
    """RECORD, DAMAGED, or for control records `commit`, `abort` or `control`."""
    problem: str = ""
    """Why it cannot be decoded."""

    @property
    def size_bytes(self) -> int:
        """Key, value and headers."""
        sizes = [len(self.key or b""), len(self.value or b"")]
        sizes += (len(name.encode()) + len(value or b"") for name, value in self.headers)
        return sum(sizes)


class Batch(NamedTuple):
    """A batch that a reader may pass over without decoding it."""

    header: BatchHeader
    content: memoryview
    partition: int
    is_hidden: bool = False
    """Whether it belongs to an aborted transaction, and committed records only are read."""

    @property
    def end(self) -> int:
        """The offset after the batch, also where compaction has removed its last records."""
        return self.header.last_offset + 1

    def messages(self) -> Iterator[Message]:
        """The messages in it, by offset."""
        if self.is_hidden:
            return
        offset = self.header.base_offset
        try:
            if checksum(self.content) != self.header.crc:
                yield self._damaged(offset, "its checksum is wrong")
                return
            kind = self._kind()
            for record in records_of_batch(self.header, self.content, PLAIN_MAX_BYTES):
                yield Message(self.partition, *record, self.header, kind)
                offset = record.offset + 1
        except Refused as refused:
            yield self._damaged(offset, refused.reason)

    def _kind(self) -> str:
        if not self.header.is_control:
            return RECORD
        marker = read_marker(self.header, self.content)
        return "control" if marker is None else "commit" if marker.is_commit else "abort"

    def _damaged(self, offset: int, why: str) -> Message:
        header = self.header
        return Message(
            *(self.partition, offset, header.max_timestamp, None, None, (), header),
            DAMAGED,
            f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be decoded:"
            f" {why}",
        )


def batches_in(fetched: Fetched) -> Iterator[Batch]:
    """The whole batches of an answer. Raises Refused for bytes that are no batch."""
    aborted = sorted(fetched.aborted, key=lambda each: each[1])
    open_aborted: set[int] = set()
    for header, content in batches_of(fetched.records):
        while aborted and aborted[0][1] <= header.last_offset:
            open_aborted.add(aborted.pop(0)[0])
        batch = Batch(header, content, fetched.partition)
        if header.is_control:
            open_aborted.difference_update(_ended(batch))
        elif header.is_transactional and header.producer_id in open_aborted:
            batch = batch._replace(is_hidden=True)
        yield batch


def _ended(batch: Batch) -> Iterable[int]:
    """The producer whose transaction was aborted by this marker."""
    try:
        marker = read_marker(batch.header, batch.content)
    except Refused:
        return ()
    return () if marker is None or marker.is_commit else (marker.producer_id,)
