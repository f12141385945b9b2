"""Codecs: framing variants of clients, and bounds on the output."""

import contextlib
import gzip

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Compression
from cluster.records.compression import DEFAULT_LEVELS, compress, decompress

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
    assert decompress(Compression.SNAPPY, snappy.compress(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x80",
        b"\xff" * 9,
        b"\x80\x80\x80\x40\x00",  # announces 128 MiB, below the bound, in five bytes
        b"\xff\xff\xff\xff\x0f\x00",  # announces 4 GiB
    ],
    ids=["empty", "cut varint", "endless varint", "128 MiB in 5 bytes", "4 GiB in 6 bytes"],
)
@pytest.mark.parametrize("is_xerial", [False, True], ids=["raw", "xerial"])
def test_a_snappy_block_that_lies_about_its_size_never_reaches_the_decoder(
    packed: bytes, is_xerial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reserve(packed: bytes) -> bytes:
        raise AssertionError("the decoder reserves what is announced")

    monkeypatch.setattr(snappy, "decompress", reserve)
    if is_xerial:
        header = compress(Compression.SNAPPY, b"")
        packed = header + len(packed).to_bytes(4, "big") + packed
    with pytest.raises(Refused) as raised:
        decompress(Compression.SNAPPY, packed)
    assert raised.value.code is ErrorCode.corrupt_message


@given(st.binary(max_size=200))
def test_snappy_decompresses_or_refuses_any_bytes(packed: bytes) -> None:
    with contextlib.suppress(Refused):
        assert len(decompress(Compression.SNAPPY, packed)) <= 22 * len(packed)


@given(st.binary(min_size=1, max_size=4), st.integers(1, 100_000))
def test_the_densest_snappy_block_is_taken(pattern: bytes, times: int) -> None:
    plain = pattern * times
    assert decompress(Compression.SNAPPY, snappy.compress(plain)) == plain


def test_gzip_of_several_members() -> None:
    packed = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, packed) == b"one, two"


@pytest.mark.parametrize(
    ("name", "codec"),
    [("uncompressed", Compression.NONE), ("lz4", Compression.LZ4), ("zstd", Compression.ZSTD)],
)
def test_names_of_codecs(name: str, codec: Compression) -> None:
    assert Compression.of_name(name) is codec


LEVELS = [
    (Compression.GZIP, (1, 6, 9)),
    (Compression.LZ4, (9, 3, 12)),  # 9 is Kafka's name for the fast compressor
    (Compression.ZSTD, (-100, 3, 19)),
]
WORDS = b" ".join(b"%x" % (number * number % 7919) for number in range(20_000))


@pytest.mark.parametrize(("codec", "levels"), LEVELS, ids=["gzip", "lz4", "zstd"])
def test_a_higher_level_packs_tighter(codec: Compression, levels: tuple[int, ...]) -> None:
    packed = [compress(codec, WORDS, level) for level in levels]
    sizes = [len(each) for each in packed]
    assert sizes == sorted(set(sizes), reverse=True)
    assert all(bytes(decompress(codec, each)) == WORDS for each in packed)


@pytest.mark.parametrize("codec", CODECS)
def test_compress_uses_the_default_level_when_none_is_given(codec: Compression) -> None:
    assert compress(codec, WORDS) == compress(codec, WORDS, DEFAULT_LEVELS[codec])


@pytest.mark.parametrize("level", range(1, 18))
def test_every_lz4_frame_has_independent_blocks(level: int) -> None:
    """Java's client refuses frames whose blocks depend on each other."""
    flags = compress(Compression.LZ4, WORDS, level)[4]
    version, blocks_are_independent = flags >> 6, flags & 0x20
    assert version == 1
    assert blocks_are_independent


@pytest.mark.parametrize("level", [-131_072, 22])
def test_zstd_takes_the_whole_range_of_levels(level: int) -> None:
    packed = compress(Compression.ZSTD, WORDS, level)
    assert bytes(decompress(Compression.ZSTD, packed)) == WORDS
