"""The four codecs of record batches, for whole byte strings and with bounded output.

Records are not decoded. Sources: RFC 1952, xerial's snappy framing and snappy's format description,
the LZ4 frame format, RFC 8878.
"""

import struct
import zlib
from collections.abc import Callable
from mmap import mmap
from typing import Final

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Buffer, Compression

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""Bound on one batch's records, against a few bytes that decompress to gigabytes."""

DEFAULT_LEVELS: Final = {
    Compression.GZIP: -1,
    Compression.SNAPPY: 0,
    Compression.LZ4: 9,
    Compression.ZSTD: 3,
}
"""Kafka's: -1 is zlib's own default (6); lz4's 9 selects the fast compressor, all other levels
the one that searches longer, as in Kafka's `Lz4BlockOutputStream`.
"""
_LZ4_FAST: Final = 0
_GZIP_WINDOW_BITS: Final = 31  # zlib's 15-bit window, with gzip's header and trailer
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_RATIO_MAX: Final = 22
"""Snappy's densest element is a copy of 64 bytes encoded in 3."""
_INT32: Final = struct.Struct(">i")
_FIRST_GUESS_BYTES: Final = 64 * 1024
_MAPPED_FROM_BYTES: Final = 1 << 20
_LZ4_PIECE_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = 64 * 1024
_PIECE_PLAIN_BYTES: Final = 1 << 20


def compress(codec: Compression, plain: Buffer, level: int | None = None) -> bytes:
    """Compress bytes (snappy in xerial's framing, as Kafka's clients do).

    `level` has the meaning of Kafka's `compression.gzip.level` etc., with None for the default;
    snappy has no levels (KIP-390).
    """
    if codec is Compression.NONE:
        return bytes(plain)
    if level is None:
        level = DEFAULT_LEVELS[codec]
    if codec is Compression.GZIP:
        packer = zlib.compressobj(level, wbits=_GZIP_WINDOW_BITS)
        return packer.compress(plain) + packer.flush()
    if codec is Compression.SNAPPY:
        return _xerial_compress(memoryview(plain))
    import cramjam

    view = memoryview(plain)
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(view, level))
    # Java's client reads only frames of independent blocks.
    frame = cramjam.lz4.Compressor(
        level=_LZ4_FAST if level == DEFAULT_LEVELS[codec] else level,
        content_checksum=False,
        block_linked=False,
    )
    for start in range(0, len(view), _LZ4_PIECE_BYTES):  # each piece releases the GIL
        frame.compress(bytes(view[start : start + _LZ4_PIECE_BYTES]))
    return bytes(frame.finish())


def decompress(
    codec: Compression, packed: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes | bytearray | memoryview:
    """Decompress; raises Refused(corrupt_message) for damage, TooLong above `max_bytes`.

    Other threads run meanwhile.
    """
    view = memoryview(packed)
    if codec is Compression.NONE:
        return view
    if codec is Compression.GZIP:
        return _gzip_decompress(view, max_bytes)
    if codec is Compression.SNAPPY:
        return _snappy_decompress(view, max_bytes)
    import cramjam

    module = cramjam.lz4 if codec is Compression.LZ4 else cramjam.zstd
    return _decompress_growing(module.decompress_into, view, max_bytes, codec)


class TooLong(Refused):
    """The decompressed data exceeds the limit."""


def _too_long(codec: Compression, max_bytes: int) -> TooLong:
    reason = f"{codec.name.lower()}: more than {max_bytes} bytes"
    return TooLong(ErrorCode.corrupt_message, reason)


def _damaged(codec: Compression, reason: object) -> Refused:
    return Refused(ErrorCode.corrupt_message, f"{codec.name.lower()}: {reason}")


def _gzip_decompress(packed: memoryview, max_bytes: int) -> bytearray:
    # In pieces: zlib releases the GIL, while copying its output does not.
    plain = bytearray()
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    position = 0
    rest: Buffer = b""
    try:
        while rest or position < len(packed):
            if not rest:
                rest = packed[position : position + _PIECE_BYTES]
                position += len(rest)
            if unpacker.eof:  # a gzip file may have several members
                unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
            plain += unpacker.decompress(rest, min(_PIECE_PLAIN_BYTES, max_bytes - len(plain) + 1))
            if len(plain) > max_bytes:
                raise _too_long(Compression.GZIP, max_bytes)
            rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error as error:
        raise _damaged(Compression.GZIP, error) from None
    if not unpacker.eof:
        raise _damaged(Compression.GZIP, "ends too early")
    return plain


def _xerial_compress(plain: memoryview) -> bytes:
    import snappy

    parts = [_XERIAL_HEADER]
    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(plain[start : start + _XERIAL_BLOCK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(packed: memoryview, max_bytes: int) -> bytes | bytearray:
    if bytes(packed[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(packed, max_bytes)
    plain = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(packed):
        start = position + _INT32.size
        if start > len(packed):
            raise _damaged(Compression.SNAPPY, "ends inside a block length")
        (size,) = _INT32.unpack_from(packed, position)
        position = start + size
        if size < 0 or position > len(packed):
            raise _damaged(Compression.SNAPPY, f"block of {size} bytes")
        plain += _snappy_block(packed[start:position], max_bytes - len(plain))
    return plain


def _snappy_block(packed: memoryview, max_bytes: int) -> bytes:
    import snappy

    size = _announced_size(packed)
    if size > max_bytes:
        raise _too_long(Compression.SNAPPY, max_bytes)
    # The decoder allocates the announced size before it reads on, so refuse an impossible one.
    if size > _SNAPPY_RATIO_MAX * len(packed):
        raise _damaged(Compression.SNAPPY, f"announces {size} bytes in {len(packed)}")
    try:
        plain: bytes = snappy.decompress(packed)
    except snappy.UncompressError as error:
        raise _damaged(Compression.SNAPPY, error.__cause__ or error) from None
    return plain


def _announced_size(packed: memoryview) -> int:
    """The plain size at the start of a snappy block: a little-endian varint of 32 bits."""
    size = 0
    for index, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise _damaged(Compression.SNAPPY, "has no length prefix")


def _decompress_growing(
    decompress_into: Callable[[memoryview, bytearray | mmap], int],
    packed: memoryview,
    max_bytes: int,
    codec: Compression,
) -> memoryview:
    """Decompress into a buffer that grows fourfold, because frames need not state their size.

    A large buffer is a mapping: filling a bytearray with zeros would block other threads.
    """
    import cramjam

    capacity = min(max_bytes, _FIRST_GUESS_BYTES + 4 * len(packed))
    while True:
        plain = bytearray(capacity) if capacity < _MAPPED_FROM_BYTES else mmap(-1, capacity)
        try:
            size = decompress_into(packed, plain)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise _damaged(codec, error) from None
        else:
            return memoryview(plain)[:size].toreadonly()
        if capacity >= max_bytes:
            raise _too_long(codec, max_bytes)
        capacity = min(max_bytes, capacity * 4)
