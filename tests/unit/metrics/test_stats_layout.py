"""Rows and headers are unpacked as they were packed; anything else is refused."""

import contextlib
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.stats_layout import (
    CLIENT_ID_MAX_BYTES,
    GROUPS_TEXT_AT,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    QUOTAS,
    ROW_AT,
    ROW_BYTES,
    SAMPLES_MAX,
    SOFTWARE_MAX_BYTES,
    USER_MAX_BYTES,
    Header,
    QuotaRow,
    cut,
    read_header,
    unpack_row,
)
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import RULES

finite = st.floats(allow_nan=False, allow_infinity=False)
longs = st.integers(-(2**63), 2**63 - 1)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
rows = st.builds(
    QuotaRow,
    quota=st.sampled_from(QUOTAS[1:]),
    user=words,
    client_id=words,
    rule=st.none() | st.sampled_from(RULES),
    limit=st.none() | finite,
    limits=st.tuples(*[st.none() | finite] * 8),
    rate=finite,
    window_seconds=finite,
    delay_ms=longs,
    requests=longs,
    throttled=longs,
    usage=finite,
    throttle_ms=finite,
    muted_ms=finite,
    muted_until_ms=longs,
    active_ms=longs,
    written_wall_ms=longs,
    delay_max_ms=longs,
    connections=longs,
    throttle_ms_max=longs,
    software=st.text(st.characters(codec="ascii"), max_size=SOFTWARE_MAX_BYTES),
    pauses=st.builds(Pauses, longs, longs, longs, longs, longs),
    samples=st.lists(st.tuples(longs, finite), max_size=SAMPLES_MAX).map(tuple),
    muted_channels=st.integers(0, 32_767),
)


@given(rows)
def test_unpack_row_returns_the_packed_row(row):
    packed = row.pack()
    assert len(packed) == ROW_BYTES - ROW_AT
    assert unpack_row(packed) == row
    assert unpack_row(packed, with_samples=False) == row._replace(samples=())


def test_pack_caps_the_number_of_muted_channels():
    row = QuotaRow(quota="fetch", user="u", client_id="c", muted_channels=40_000)
    assert unpack_row(row.pack()).muted_channels == 32_767


@given(st.text(max_size=400), st.sampled_from([USER_MAX_BYTES, CLIENT_ID_MAX_BYTES]))
def test_a_long_name_is_cut_between_characters(text, size_bytes):
    kept = cut(text, size_bytes)
    assert len(kept) <= size_bytes
    decoded = kept.decode()
    assert decoded == text.encode("utf-8", "replace").decode()[: len(decoded)]
    assert len(kept) > size_bytes - 4 or len(kept) == len(text.encode("utf-8", "replace"))


@given(st.binary(min_size=ROW_BYTES - ROW_AT, max_size=ROW_BYTES - ROW_AT))
def test_unpack_row_returns_a_row_or_raises_for_garbage(packed):
    with contextlib.suppress(ValueError):
        row = unpack_row(packed)
        assert row is None or row.quota in QUOTAS


@given(st.binary(max_size=300))
def test_read_header_raises_for_garbage(data):
    with pytest.raises(ValueError, match=r"begins with|shorter than"):
        read_header(data)


@given(st.binary(min_size=HEADER.size, max_size=HEADER.size))
def test_read_header_raises_when_the_file_is_too_short(data):
    data = MAGIC + data[len(MAGIC) : 48] + struct.pack("<ii", 1 << 20, 1 << 20) + data[56:]
    with pytest.raises(ValueError, match="shorter than its header says"):
        read_header(data)


def test_numbers_are_aligned_to_eight_bytes():
    header = Header(MAGIC, 1, 0, 0, 0, 0, 7, 3, 0, b"x", 64)
    assert HEADER.size == HEADER_BYTES
    assert ROW_BYTES % 8 == 0
    assert header.values_at % 8 == 0
    assert header.rows_at % 8 == 0
    assert header.groups_at == header.rows_at + 3 * ROW_BYTES
    assert header.groups_at % 8 == GROUPS_TEXT_AT % 8 == 0
    assert header.size_bytes == header.groups_at + GROUPS_TEXT_AT + 64


@pytest.mark.parametrize(
    ("limit", "rate", "expected"),
    [(None, 5.0, None), (10.0, 5.0, 0.5), (0.0, 5.0, math.inf), (0.0, 0.0, 0.0)],
)
def test_utilization_is_rate_over_limit(limit, rate, expected):
    assert (
        QuotaRow(quota="fetch", user="u", client_id="c", limit=limit, rate=rate).utilization
        == expected
    )


def test_the_mute_left_is_counted_from_the_deadline():
    row = QuotaRow(quota="fetch", user="u", client_id="c", muted_until_ms=1_500)
    assert row.muted_left_ms(MonotonicMs(1_200)) == 300
    assert row.muted_left_ms(MonotonicMs(1_501)) == 0
