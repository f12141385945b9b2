"""Fetched batches become messages, as a consumer sees them."""

import json

import pytest

from cluster.client.fetch_requests import Fetched
from cluster.dashboard.messages.batches import DAMAGED, RECORD, Message, batches_in
from cluster.dashboard.messages.filtering import wanted_by
from cluster.dashboard.messages.rows import row
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import EndMarker, build_marker


def messages(*batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> list[Message]:
    fetched = Fetched(2, ErrorCode.none, aborted, memoryview(b"".join(batches)))
    return [each for batch in batches_in(fetched) for each in batch.messages()]


def batch(offset: int, *values: bytes | None, producer: int = -1, tx: bool = False) -> bytes:
    records = [NewRecord(value, b"key", 1_000 + offset) for value in values]
    identity = ProducerIdentity(producer, 3, 0) if producer >= 0 else ProducerIdentity()
    return bytes(build_batch(records, base_offset=offset, producer=identity, is_transactional=tx))


def marker(offset: int, producer: int, *, is_commit: bool) -> bytes:
    content = bytearray(build_marker(EndMarker(producer, 3, 0, is_commit), WallMs(5)))
    content[:8] = offset.to_bytes(8, "big")
    return bytes(content)


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_decoded(codec: Compression) -> None:
    records = [NewRecord(b"v" * 100, b"k", 7, (("h", b"1"), ("n", None))) for _ in range(5)]
    found = messages(bytes(build_batch(records, base_offset=40, codec=codec)))
    assert [each.offset for each in found] == [40, 41, 42, 43, 44]
    assert found[0].headers == (("h", b"1"), ("n", None))
    assert row(found[0])["batch"]["compression"] == codec.name.lower()
    assert found[0].size_bytes == 1 + 100 + 3


def test_a_row_has_the_first_of_many_headers() -> None:
    headers = tuple((f"h{number}" + "x" * 3_000, b"") for number in range(10_000))
    (found,) = messages(bytes(build_batch([NewRecord(b"v", headers=headers)])))
    shown = row(found)
    assert (len(shown["headers"]), shown["header_count"]) == (50, 10_000)
    assert len(shown["headers"][0][0]) == 2_000


def test_aborted_records_are_hidden_from_readers_of_committed_ones() -> None:
    log = (
        batch(0, b"a", producer=1, tx=True),
        batch(1, b"b", producer=2, tx=True),
        marker(2, 1, is_commit=False),
        batch(3, b"c", producer=1, tx=True),
        marker(4, 1, is_commit=True),
        batch(5, b"d"),
        marker(6, 2, is_commit=True),
    )
    kinds = [RECORD, RECORD, "abort", RECORD, "commit", RECORD, "commit"]
    assert [each.kind for each in messages(*log)] == kinds
    shown = messages(*log, aborted=((1, 0),))
    assert [each.value for each in shown if each.kind == RECORD] == [b"b", b"c", b"d"]


def test_producer_and_sequence_are_shown() -> None:
    _, second = messages(batch(10, b"a", b"b", producer=2**60, tx=True))
    assert row(second)["producer"] == {
        "id": str(2**60),
        "epoch": 3,
        "sequence": 1,
        "is_transactional": True,
    }
    (plain,) = messages(batch(10, b"a"))
    assert row(plain)["producer"] is None


def test_a_damaged_batch_is_shown_and_the_next_one_read() -> None:
    damaged = bytearray(batch(0, b"a", b"b"))
    damaged[-2] ^= 1
    first, second = messages(bytes(damaged), batch(2, b"c"))
    assert (first.kind, first.offset) == (DAMAGED, 0)
    assert first.problem == ("the batch of offsets 0 to 1 cannot be decoded: its checksum is wrong")
    assert (second.kind, second.value) == (RECORD, b"c")
    assert row(first)["kind"] == DAMAGED


def test_an_incomplete_batch_at_the_end_is_left_out() -> None:
    assert [each.offset for each in messages(batch(0, b"a"), batch(1, b"b")[:-1])] == [0]


@pytest.mark.parametrize(
    ("needle", "match", "is_wanted"),
    [
        ("", "value", True),
        ("ZOË", "any", True),
        ("zoë", "key", False),
        ("zoë", "value", True),
        ("trace", "headers", True),
        ("ABC", "headers", True),
        ("abc", "value", False),
        ("key", "key", True),
        ("nothing", "any", False),
    ],
)
def test_filter(needle: str, match: str, is_wanted: bool) -> None:
    record = NewRecord("Zoë 1".encode(), b"KEY", 0, (("Trace", b"abc"), ("none", None)))
    (message,) = messages(bytes(build_batch([record])))
    assert wanted_by(needle, match)(message) == is_wanted


@pytest.mark.parametrize("needle", ["åsa", "ÅSA m", "\N{FOX FACE}", r"\u00c5sa"])
def test_filter_finds_what_json_escapes(needle: str) -> None:
    text = json.dumps({"name": "Åsa M", "sign": "\N{FOX FACE}"})
    (message,) = messages(bytes(build_batch([NewRecord(text.encode(), b"", 0)])))
    assert "Å" not in text
    assert wanted_by(needle, "value")(message)
    assert not wanted_by("Ä", "value")(message)


def test_filter_passes_over_markers_and_shows_damage() -> None:
    damaged = bytearray(batch(1, b"a"))
    damaged[-2] ^= 1
    found = messages(marker(0, 1, is_commit=True), bytes(damaged), batch(2, None))
    wants = wanted_by("x", "any")
    assert [wants(each) for each in found] == [False, True, False]
