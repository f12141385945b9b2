"""Rewrites segments with messages of formats v0 and v1 as record batches v2 before they are used.

A converted file is written and synced beside the old one, then renamed over it, so a crash leaves
one of the two. Its indexes are removed first, so that recovery builds new ones.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from cluster.log.files import NewFile, files_of
from cluster.log.offset_index import map_file
from cluster.log.segment_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from cluster.log.segment_swap import CLEANED_SUFFIX
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    checksum,
    read_header,
)
from cluster.records.conversion import converted
from cluster.records.legacy import SIZE_MIN, Message, is_old_format, read_message

_log = logging.getLogger(__name__)

_LENGTH: Final = Struct(">i")
_LENGTH_POSITION: Final = 8
_SEGMENT_MAX_BYTES: Final = 2**31 - 1


def convert_old_segments(directory: Path, base_offsets: Sequence[int]) -> None:
    """Convert the segments of a directory, given in order, that begin with an old message.

    Raises StorageFailed, with instructions, if a segment cannot be converted. The log then is
    unchanged, except for converted segments before that one.
    """
    last = len(base_offsets) - 1
    for slot, base_offset in enumerate(base_offsets):
        path = segment_path(directory, base_offset, LOG_SUFFIX)
        try:
            if _begins_with_old_message(path):
                _convert(directory, base_offset, path, may_be_cut=slot == last)
        except OSError as error:
            raise StorageFailed(f"cannot convert {path}: {error.strerror}") from error
        except Refused as problem:
            raise StorageFailed(
                f"{path} has messages of an old format and is damaged: {problem.detail};"
                " move the partition's directory away and import the records before the damage"
                " with import-log"
            ) from problem


def _begins_with_old_message(path: Path) -> bool:
    files = files_of(path)
    descriptor = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = files.pread(descriptor, MAGIC_POSITION + 1, 0)
        if len(head) <= MAGIC_POSITION or not is_old_format(head[MAGIC_POSITION]):
            return False
        size = int(_LENGTH.unpack_from(head, _LENGTH_POSITION)[0])
        if size < SIZE_MIN:
            return False  # preallocated space
        first = files.pread(descriptor, min(size, _SEGMENT_MAX_BYTES) + LENGTH_OVERHEAD_BYTES, 0)
    finally:
        os.close(descriptor)
    return not _is_batch_with_damaged_magic(first)


def _is_batch_with_damaged_magic(content: bytes) -> bool:
    """Whether a damaged format number alone prevents this from being a batch of format 2.

    The checksum does not cover the format number.
    """
    if len(content) < HEADER_BYTES:
        return False
    return checksum(content) == read_header(content).crc


def _convert(directory: Path, base_offset: int, path: Path, *, may_be_cut: bool) -> None:
    temporary = path.with_name(path.name + CLEANED_SUFFIX)  # every start removes it, in Kafka too
    files = files_of(path)
    try:
        # The garbage collector unmaps it, because the messages are views of it.
        content = memoryview(map_file(path) or b"")
        with NewFile(temporary) as out:
            before = len(content)
            _write_batches(content, out, path, may_be_cut=may_be_cut)
            after = out.size_bytes
            if after > _SEGMENT_MAX_BYTES:
                raise Refused(
                    ErrorCode.corrupt_message, f"the converted segment would have {after} bytes"
                )
            out.sync()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            files.unlink_if_there(segment_path(directory, base_offset, suffix))
        files.rename(temporary, path)
        files_of(directory).sync_path(directory)
    except BaseException:
        files.unlink_if_there(temporary)
        raise
    _log.info("%s converted from an old message format, from %d to %d bytes", path, before, after)


def _write_batches(content: memoryview, out: NewFile, path: Path, *, may_be_cut: bool) -> None:
    """Write the content of a segment as batches.

    Raises Refused for damage, unless `may_be_cut`.
    """
    stored = _Stored(content)
    try:
        while stored.position < len(content):
            start = stored.position
            for converted_batch in converted(stored.old_messages()):
                out.write(converted_batch)
            for batch in stored.new_batches():
                out.write(batch)
            if stored.position == start:
                raise Refused(ErrorCode.corrupt_message, "neither a message nor a batch")
    except Refused as problem:
        position = stored.position
        if not may_be_cut:
            raise Refused(problem.code, f"{problem.detail} at byte {position}") from problem
        if any(content[position:]):  # otherwise preallocated space
            _log.warning(
                "%s cut at byte %d of %d: %s", path, position, len(content), problem.detail
            )


class _Stored:
    """A walk over a file in which old messages and batches may alternate."""

    def __init__(self, content: memoryview) -> None:
        self.position = 0
        self._content = content

    def old_messages(self) -> Iterator[Message]:
        """Iterate over the messages up to the next batch or invalid bytes."""
        while (size := self._size()) >= SIZE_MIN + LENGTH_OVERHEAD_BYTES and is_old_format(
            self._content[self.position + MAGIC_POSITION]
        ):
            message = read_message(self._content, self.position)
            yield message
            self.position += size

    def new_batches(self) -> Iterator[memoryview]:
        """Iterate over the batches up to the next old message or invalid bytes, without checks."""
        while (size := self._size()) >= HEADER_BYTES and (
            self._content[self.position + MAGIC_POSITION] == MAGIC_V2
        ):
            yield self._content[self.position : self.position + size]
            self.position += size

    def _size(self) -> int:
        """Size of the batch or message at the position; 0 if it does not fit into the file."""
        left = len(self._content) - self.position
        if left <= MAGIC_POSITION:
            return 0
        (length,) = _LENGTH.unpack_from(self._content, self.position + _LENGTH_POSITION)
        size = int(length) + LENGTH_OVERHEAD_BYTES
        return size if LENGTH_OVERHEAD_BYTES < size <= left else 0
