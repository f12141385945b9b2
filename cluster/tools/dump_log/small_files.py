"""The lines of the other files: producer snapshots, transaction indexes, checkpoints, metadata.

Kafka's tool prints the first two kinds; the form of the others is Milena's own.
"""

from collections.abc import Iterator

from cluster.config.properties_file import parse_properties
from cluster.log.checkpoints import (
    LEADER_EPOCHS,
    META_PROPERTIES,
    PARTITION_METADATA,
    DamagedCheckpoint,
    decode_rows,
)
from cluster.log.producer_snapshots import DamagedSnapshot, decode_snapshot
from cluster.log.transaction_index import VERSION, transactions_in
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.tools.stored_batches import Unreadable
from cluster.tools.stored_file import StoredFile

CHECKPOINT_ENDING = "-checkpoint"


def snapshot_lines(file: StoredFile) -> Iterator[str]:
    """Text to print of a `.snapshot`. Raises Unreadable."""
    try:
        entries = decode_snapshot(file.all())
    except DamagedSnapshot as problem:
        raise Unreadable(str(problem)) from None
    for producer_id, entry in entries.items():
        transaction = f"OptionalLong[{entry.transaction_offset}]"
        if entry.transaction_offset < 0:
            transaction = "OptionalLong.empty"
        line = (
            f"producerId: {producer_id} producerEpoch: {entry.epoch}"
            f" coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {transaction}"
            f" lastTimestamp: {entry.last_timestamp_ms} "
        )
        if entry.batches:
            last = entry.batches[-1]
            line += (
                f"firstSequence: {last.base_sequence} lastSequence: {last.last_sequence}"
                f" lastOffset: {last.last_offset} offsetDelta: {last.offset_delta}"
                f" timestamp: {last.timestamp_ms}"
            )
        yield line


def transaction_index_lines(file: StoredFile) -> Iterator[str]:
    """Text to print of a `.txnindex`. Raises Unreadable."""
    for number, aborted in transactions_in(file.all()):
        version = number >> 8  # Kafka looks at the first byte of the two
        if version > VERSION:
            raise Unreadable(
                f"Unexpected aborted transaction version {version} in transaction index"
                f" {file.path.absolute()}, current version is {VERSION}"
            )
        yield (
            f"version: {version} producerId: {aborted.producer_id}"
            f" firstOffset: {aborted.first_offset} lastOffset: {aborted.last_offset}"
            f" lastStableOffset: {aborted.last_stable_offset}"
        )


def checkpoint_lines(file: StoredFile) -> Iterator[str]:
    """Text to print of a checkpoint. Raises Unreadable."""
    try:
        rows = decode_rows(file.all())
    except DamagedCheckpoint as problem:
        raise Unreadable(str(problem)) from None
    yield f"version: 0 entries: {len(rows)}"
    is_of_epochs = file.path.name == LEADER_EPOCHS
    names = ["epoch", "startOffset"] if is_of_epochs else ["topic", "partition", "offset"]
    for row in rows:
        if len(row) != len(names):
            raise Unreadable(f"a row has {len(row)} fields instead of {len(names)}")
        yield " ".join(f"{name}: {one_line(value)}" for name, value in zip(names, row, strict=True))


def property_lines(file: StoredFile) -> Iterator[str]:
    """Text to print of `partition.metadata` or `meta.properties`. Raises Unreadable."""
    text = file.all().decode("utf-8", "replace")
    try:
        found = parse_properties(text).texts
    except UserError as problem:
        raise Unreadable(str(problem)) from None
    for name, value in sorted(found.items()):
        yield f"{one_line(name)}: {one_line(value)}"


PROPERTY_FILES = (PARTITION_METADATA, META_PROPERTIES)
