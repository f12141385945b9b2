"""Cutting a byte stream into records, whatever pieces it comes in."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.registry.wire.framing import FOUR_LETTER_WORDS, FrameReader
from cluster.model.errors import PeerError


def fed(frames: FrameReader, received: bytes) -> list[bytes]:
    frames.receive(received)
    return list(iter(frames.next_record, None))


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_records_do_not_depend_on_the_pieces(records: list[bytes], pieces: list[int]) -> None:
    stream = b"".join(struct.pack(">i", len(record)) + record for record in records)
    frames = FrameReader(max_record_bytes=40)
    received: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = pieces[turn % len(pieces)]
        received += fed(frames, stream[position : position + size])
        position += size
        turn += 1
    assert received == records


@pytest.mark.parametrize("length", [-1, 41, 2**31 - 1])
def test_lengths_that_cannot_be(length: int) -> None:
    with pytest.raises(PeerError, match=str(length)):
        fed(FrameReader(max_record_bytes=40), struct.pack(">i", length))


@pytest.mark.parametrize("word", sorted(FOUR_LETTER_WORDS))
def test_a_four_letter_word_is_only_one_at_the_start(word: bytes) -> None:
    frames = FrameReader(max_record_bytes=40)
    assert fed(frames, word[:2]) == []
    assert fed(frames, word[2:] + b"\n") == []
    assert frames.word == word
    assert fed(frames, b"\0\0\0\1x") == []
    later = FrameReader(max_record_bytes=40)
    assert fed(later, b"\0\0\0\1x") == [b"x"]
    with pytest.raises(PeerError):
        fed(later, word)


def test_frame_reader_does_not_keep_returned_frames() -> None:
    frames = FrameReader(max_record_bytes=1_000)
    assert fed(frames, struct.pack(">i", 1_000) + bytes(1_000)) == [bytes(1_000)]
    assert len(frames.pending) == 0
    assert fed(frames, struct.pack(">i", 3) + b"two" + struct.pack(">i", 9) + b"half") == [b"two"]
    assert fed(frames, b"rest.") == [b"halfrest."]
    assert len(frames.pending) == 0
