"""Variable-length integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import Refused
from cluster.records.varint import read_varint, write_varint


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_round_trip(value: int) -> None:
    out = bytearray(b"?")
    write_varint(out, value)
    assert read_varint(out, 1) == (value, len(out))
    assert len(out) <= 11


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")],
)
def test_known_encodings(value: int, encoded: str) -> None:
    """The examples are those of the Protocol Buffers encoding guide."""
    out = bytearray()
    write_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("damaged", [b"", b"\x80", b"\xff" * 10, b"\xff" * 20])
def test_unfinished_numbers_are_refused(damaged: bytes) -> None:
    with pytest.raises(Refused):
        read_varint(damaged, 0)
