"""The lines of a `.log` file."""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from cluster.model.errors import Refused
from cluster.records.batch import BatchHeader
from cluster.records.legacy import Message
from cluster.tools.dump_log.report import Report, note
from cluster.tools.stored_batches import (
    NO_LIMIT,
    NewBatch,
    OldMessage,
    Read,
    StoredBatch,
    Unreadable,
    stored_batches,
)
from cluster.tools.stored_file import StoredFile

Decoder = Callable[[Read], tuple[str | None, str | None]]
"""From a record to the texts of its key and value, None for one that is not printed."""

_DELETE_HORIZON_BIT: Final = 0x40
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_MARKER: Final = struct.Struct(">hi")
_CONTROL_TYPES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_END_OF_TRANSACTION: Final = ("ABORT", "COMMIT")


class LogOptions(NamedTuple):
    """What is printed of a log."""

    decoder: Decoder | None
    """None: keys and values are not printed."""
    is_deep: bool
    """Whether the records are printed, not the batches alone."""
    skips_metadata: bool
    max_bytes: int = NO_LIMIT


def plain_text(read: Read) -> tuple[str | None, str | None]:
    """Key and value as UTF-8, as Kafka's StringDecoder reads them."""
    record = read.record
    return _text(record.key), _text(record.value)


def log_lines(file: StoredFile, options: LogOptions, report: Report) -> Iterator[str]:
    """Text to print, of a batch and its records at a time. Raises Unreadable at damage."""
    yield f"Log starting offset: {file.base_offset}"
    last_offset: int | None = None
    valid_bytes = 0
    for batch in stored_batches(file, 0, options.max_bytes):
        lines = [_batch_line(batch)]
        problem: Unreadable | None = None
        if options.is_deep:
            try:
                for read in batch.records():
                    lines.append(_record_line(batch, read, options))
                    offset = read.record.offset
                    if last_offset not in (None, offset - 1):
                        note(report.gaps, file.path, last_offset or 0, offset)
                    last_offset = offset
            except Unreadable as damage:
                problem = damage
        yield "\n".join(lines)
        if problem is not None:
            raise problem
        valid_bytes = batch.position + len(batch.content)
    trailing = file.size_bytes - valid_bytes
    if trailing > 0 and options.max_bytes == NO_LIMIT:
        yield f"Found {trailing} invalid bytes at the end of {file.path.name}"


def _batch_line(batch: StoredBatch) -> str:
    """What is printed of a batch. Raises Unreadable for an unknown codec."""
    if isinstance(batch, OldMessage):
        message = batch.message
        return (
            f"offset: {message.offset} position: {batch.position}"
            f" {_timestamp_type(batch)}: {message.timestamp_ms} size: {message.size_bytes}"
            f" magic: {message.magic} compresscodec: {_codec(message)} crc: {message.crc}"
            f" isvalid: {_java(batch.is_valid)}"
        )
    header = batch.header
    horizon = "OptionalLong.empty"
    if header.attributes & _DELETE_HORIZON_BIT:
        horizon = f"OptionalLong[{header.base_timestamp}]"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.record_count} baseSequence: {header.base_sequence}"
        f" lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_java(header.is_transactional)}"
        f" isControl: {_java(header.is_control)} deleteHorizonMs: {horizon}"
        f" position: {batch.position} {_timestamp_type(batch)}: {header.max_timestamp}"
        f" size: {header.size_bytes} magic: {header.magic} compresscodec: {_codec(header)}"
        f" crc: {header.crc} isvalid: {_java(batch.is_valid)}"
    )


def _timestamp_type(batch: StoredBatch) -> str:
    """Kafka's name of it."""
    if isinstance(batch, OldMessage) and batch.message.magic == 0:
        return "NoTimestampType"
    stamped = batch.message if isinstance(batch, OldMessage) else batch.header
    return "LogAppendTime" if stamped.is_log_append_time else "CreateTime"


def _codec(batch: BatchHeader | Message) -> str:
    try:
        return batch.compression.name.lower()
    except Refused as problem:
        raise Unreadable(problem.detail) from None


def _record_line(batch: StoredBatch, read: Read, options: LogOptions) -> str:
    line = "" if options.skips_metadata else _metadata(batch, read)
    is_control = isinstance(batch, NewBatch) and batch.header.is_control
    if options.decoder is None or is_control:
        return line
    key, value = options.decoder(read)
    if key is not None:
        line += f"{' ' if line else '| '}key: {key}"
    return line if value is None else f"{line} payload: {value}"


def _metadata(batch: StoredBatch, read: Read) -> str:
    record, message = read
    line = (
        f"| offset: {record.offset} {_timestamp_type(batch)}: {record.timestamp_ms}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if message is not None:
        # The brace is Kafka's.
        return f"{line} isValid: {_java(message.is_valid)} crc: {message.crc}}}"
    assert isinstance(batch, NewBatch)
    header = batch.header
    sequence = -1
    if header.base_sequence >= 0:
        sequence = header.base_sequence + record.offset - header.base_offset & 0x7FFF_FFFF
    names = ",".join(name for name, _ in record.headers)
    line += f" sequence: {sequence} headerKeys: [{names}]"
    return f"{line} {_control(read)}" if header.is_control else line


def _control(read: Read) -> str:
    """What a record of a control batch says. Raises Unreadable."""
    record = read.record
    try:
        _version, number = _CONTROL_KEY.unpack_from(record.key or b"")
        name = _CONTROL_TYPES.get(number, "UNKNOWN")
        if name in _END_OF_TRANSACTION:
            _version, epoch = _END_MARKER.unpack_from(record.value or b"")
            return f"endTxnMarker: {name} coordinatorEpoch: {epoch}"
    except struct.error:
        raise Unreadable(f"control record at offset {record.offset} is too short") from None
    return f"controlType: {name}({number})"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _java(is_true: bool) -> str:
    return "true" if is_true else "false"
