"""Lines from records."""

import pytest

from cluster.tools.record_printer import ConsumedRecord, RecordPrinter

RECORD = ConsumedRecord(
    partition=0,
    offset=5,
    timestamp_type=1,
    timestamp_ms=1_700_000_000_000,
    key=b"key",
    value=b"value",
    headers=[("h1", b"v1"), ("h2", None)],
)
EMPTY = RECORD._replace(key=None, value=None, headers=())
EVERYTHING = ("timestamp", "partition", "offset", "headers", "key")


def printer(*printed: str, **properties: str) -> RecordPrinter:
    """`printer("key", key_separator=":")`."""
    given = [(f"print.{name}", "true") for name in printed]
    given += [(name.replace("_", "."), value) for name, value in properties.items()]
    return RecordPrinter.from_properties(given)


def test_only_the_value_by_default():
    assert printer().line(RECORD) == b"value\n"


def test_the_order_is_kafkas():
    assert printer(*EVERYTHING).line(RECORD) == (
        b"CreateTime:1700000000000\tPartition:0\tOffset:5\th1:v1,h2:null\tkey\tvalue\n"
    )


def test_missing_parts():
    assert printer("headers", "key").line(EMPTY) == b"NO_HEADERS\tnull\tnull\n"
    assert printer("key", null_literal="-").line(EMPTY) == b"-\t-\n"


def test_separators_may_be_chosen():
    chosen = printer(
        "headers", "key", key_separator=" | ", line_separator="\0", headers_separator=";"
    )
    assert chosen.line(RECORD) == b"h1:v1;h2:null | key | value\0"


def test_values_may_be_left_out():
    assert printer("offset", print_value="false").line(RECORD) == b"Offset:5\n"
    assert printer(print_value="false").line(RECORD) == b""


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (0, b"NO_TIMESTAMP"),
        (1, b"CreateTime:1700000000000"),
        (2, b"LogAppendTime:1700000000000"),
    ],
)
def test_the_kind_of_a_timestamp(kind, shown):
    line = printer("timestamp", print_value="false").line(RECORD._replace(timestamp_type=kind))
    assert line == shown + b"\n"


def test_bytes_that_are_no_text_are_left_alone():
    assert printer("key").line(RECORD._replace(key=b"\xff", value=b"\x00")) == b"\xff\t\x00\n"


def test_a_misspelt_property_is_named():
    with pytest.raises(ValueError, match=r"no property print\.keys"):
        RecordPrinter.from_properties([("print.keys", "true")])
