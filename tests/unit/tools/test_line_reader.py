"""Records from lines."""

import pytest

from cluster.tools.line_reader import LineReader, ProducedRecord, UnreadableLine


def reader(**properties: str) -> LineReader:
    """`parse_key="true"` for `parse.key=true`."""
    return LineReader.from_properties(
        [(name.replace("_", "."), value) for name, value in properties.items()]
    )


def test_a_line_is_a_value():
    assert reader().read(b"a\tb", 1) == ProducedRecord(None, b"a\tb", [])
    assert reader().read(b"", 1) == ProducedRecord(None, b"", [])


def test_a_key_ends_at_the_first_separator():
    assert reader(parse_key="true").read(b"k\tv\tw", 1) == ProducedRecord(b"k", b"v\tw", [])
    assert reader(parse_key="true", key_separator="::").read(b"k::v", 1).value == b"v"


def test_headers_stand_before_the_key():
    both = reader(parse_key="true", parse_headers="true")
    assert both.read(b"h:1,g:2:3\tk\tv", 1) == ProducedRecord(
        b"k", b"v", [("h", b"1"), ("g", b"2:3")]
    )
    assert both.read(b"\tk\tv", 1).headers == []


def test_separators_of_headers_may_be_chosen():
    chosen = reader(
        parse_headers="true",
        headers_delimiter="|",
        headers_separator=";",
        headers_key_separator="=",
    )
    assert chosen.read(b"h=1;g=2|v", 1) == ProducedRecord(None, b"v", [("h", b"1"), ("g", b"2")])


@pytest.mark.parametrize(
    ("properties", "line", "reason"),
    [
        ({"parse_key": "true"}, b"v", "No key separator found on line number 7: 'v'"),
        ({"parse_headers": "true"}, b"v", "No headers delimiter found on line number 7: 'v'"),
        ({"parse_headers": "true"}, b"h\tv", "No header key separator found on line number 7: 'h'"),
    ],
)
def test_a_missing_part_is_refused_with_the_number_of_the_line(properties, line, reason):
    with pytest.raises(UnreadableLine) as refused:
        reader(**properties).read(line, 7)
    assert str(refused.value) == reason


def test_missing_parts_may_be_ignored():
    lenient = reader(parse_key="true", parse_headers="true", ignore_error="true")
    assert lenient.read(b"v", 1) == ProducedRecord(None, b"v", [])
    assert lenient.read(b"h\tk\tv", 1) == ProducedRecord(b"k", b"v", [])


def test_a_marker_stands_for_null():
    marked = reader(parse_key="true", parse_headers="true", null_marker="NIL")
    assert marked.read(b"NIL\tNIL\tNIL", 1) == ProducedRecord(None, None, [])
    assert marked.read(b"h:NIL\tk\t", 1) == ProducedRecord(b"k", b"", [("h", None)])


@pytest.mark.parametrize(
    "properties",
    [
        {"parse_keys": "true"},
        {"key_separator": ""},
        {"headers_separator": ":"},
        {"headers_delimiter": ","},
    ],
)
def test_properties_that_cannot_work_are_refused(properties):
    with pytest.raises(ValueError, match=r"."):
        reader(**properties)
