"""Codecs: framing variants that clients send, and bounds on what comes out."""

import gzip

import cramjam
import pytest

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Compression
from cluster.records.compression import compress, decompress

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
PLAIN = b"a line of text that repeats itself. " * 5000


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("plain", [b"", b"x", PLAIN])
def test_round_trip(codec: Compression, plain: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, plain))) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_output_is_bounded(codec: Compression) -> None:
    packed = compress(codec, bytes(3_000_000))
    assert len(decompress(codec, packed, 3_000_000)) == 3_000_000
    with pytest.raises(Refused) as raised:
        decompress(codec, packed, 2_999_999)
    assert raised.value.code is ErrorCode.corrupt_message


@pytest.mark.parametrize("codec", CODECS)
def test_cut_input_is_refused(codec: Compression) -> None:
    packed = compress(codec, PLAIN)
    for size in (1, 7, 19, len(packed) // 2, len(packed) - 1):
        with pytest.raises(Refused):
            decompress(codec, packed[:size])


def test_snappy_without_xerial_framing() -> None:
    raw = bytes(cramjam.snappy.compress_raw(PLAIN))
    assert decompress(Compression.SNAPPY, raw) == PLAIN


def test_gzip_of_several_members() -> None:
    packed = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, packed) == b"one, two"


@pytest.mark.parametrize(
    ("name", "codec"),
    [("uncompressed", Compression.NONE), ("lz4", Compression.LZ4), ("zstd", Compression.ZSTD)],
)
def test_names_of_codecs(name: str, codec: Compression) -> None:
    assert Compression.of_name(name) is codec
