"""How bytes are shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.dashboard.messages.shown import as_text, hex_lines, listed, whole


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "null"),
        (b"", "empty"),
        (b"plain\ttext\r\n", "text"),
        ("Zoë \u202e".encode(), "text"),
        (b"12", "text"),
        (b'"text"', "text"),
        (b"null", "text"),
        (b" {}", "json"),
        (b"[1]", "json"),
        (b"{1}", "text"),
        (b"\xff", "binary"),
        (b"\xed\xa0\x80", "binary"),  # half a surrogate pair
        (b"a\x00b", "binary"),
        (b"\x1b[31m", "binary"),
    ],
)
def test_kind_of_a_value(data: bytes | None, kind: str) -> None:
    assert listed(data)["kind"] == whole(data)["kind"] == kind


@given(st.binary(max_size=600))
def test_all_bytes_are_shown_as_valid_json(data: bytes) -> None:
    for found in (listed(data), whole(data), whole(data, as_hex=True)):
        json.dumps(found, ensure_ascii=False).encode()
        assert found["size"] == len(data)


@given(st.binary(max_size=100))
def test_hex_lines_have_all_bytes(data: bytes) -> None:
    lines = hex_lines(data)
    assert bytes.fromhex("".join(line[10:58] for line in lines)) == data
    assert [int(line[:8], 16) for line in lines] == [*range(0, len(data), 16)]


def test_hex_lines_are_those_of_hexdump() -> None:
    assert hex_lines(b"<b>\x00\xff 0123456789ABC") == [
        "00000000  3c 62 3e 00 ff 20 30 31  32 33 34 35 36 37 38 39  |<b>.. 0123456789|",
        "00000010  41 42 43                                          |ABC|",
    ]


@given(st.text())
def test_text_is_shown_as_it_is_unless_it_has_control_characters(text: str) -> None:
    encoded = text.encode("utf-8", "ignore")
    found = as_text(encoded)
    assert found is None or found.encode() == encoded


def test_large_values_are_cut_in_a_list_and_not_alone() -> None:
    text = json.dumps({"rows": ["x" * 100] * 10_000}).encode()
    assert len(text) > 1_000_000
    short, all_of_it = listed(text), whole(text)
    assert (short["kind"], short["is_cut"], len(short["text"])) == ("text", True, 2_000)
    assert (all_of_it["kind"], all_of_it["is_cut"]) == ("json", False)
    assert listed(b"\xff" * 1_000_000)["is_cut"]
    assert whole(b"\xff" * 1_000_000)["is_cut"]


def test_bytes_of_a_text_are_shown_if_asked_for() -> None:
    assert whole(b"{}", as_hex=True) == {
        "kind": "binary",
        "size": 2,
        "text": f"00000000  {'7b 7d':<48}  |{{}}|",
        "is_cut": False,
    }
    assert whole(None, as_hex=True)["kind"] == "null"
