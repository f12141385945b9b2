import pytest

from cluster.config.value_type import (
    Listener,
    any_of,
    boolean,
    choice,
    class_name,
    double,
    integer,
    list_of,
    listener_list,
    long,
    matching,
    optional_string,
    protocol_map,
    string,
    string_list,
)


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (integer(), "-7", -7),
        (integer(at_least=0), "+7", 7),
        (long(), "9223372036854775807", 9223372036854775807),
        (double(at_least=0, at_most=1), "0.5", 0.5),
        (boolean(), "TRUE", True),
        (boolean(), "false", False),
        (string(), "x", "x"),
        (optional_string(), "", None),
        (matching("a+", "some a"), "aa", "aa"),
        (choice("gzip", "zstd"), "zstd", "zstd"),
        (list_of("delete", "compact"), "compact, delete", ("compact", "delete")),
        (list_of("range", "uniform", other_names={"a.Range": "range"}), "a.Range", ("range",)),
        (any_of("delete", "compact"), "", ()),
        (any_of("delete", "compact"), "compact,compact", ("compact", "compact")),
        (string_list(), "", ()),
        (string_list(), "a,,b ", ("a", "b")),
        (listener_list(), "clients://a:0", (Listener("CLIENTS", "a", 0),)),
        (listener_list(), "PLAINTEXT://:0", (Listener("PLAINTEXT", "", 0),)),
        (listener_list(), "PLAINTEXT://[::1]:9092", (Listener("PLAINTEXT", "::1", 9092),)),
        (
            listener_list(),
            "PLAINTEXT://a:1,PLAINTEXT://b:2",
            (Listener("PLAINTEXT", "a", 1), Listener("PLAINTEXT", "b", 2)),
        ),
    ],
)
def test_text_within_the_range_is_parsed(value_type, text, value):
    assert value_type.parse(text) == value
    assert value_type.parse(value_type.render(value) or "") == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (integer(), "1.5"),
        (integer(), "1_000"),
        (integer(), "٣"),
        (integer(), "2147483648"),
        (integer(at_least=1), "0"),
        (integer(at_most=9), "10"),
        (long(), "9223372036854775808"),
        (double(at_least=0, at_most=1), "1.1"),
        (double(at_least=0, at_most=1), "nan"),
        (boolean(), "yes"),
        (string(), ""),
        (matching("a+", "some a"), "ab"),
        (choice("gzip", "zstd"), "GZIP"),
        (list_of("delete", "compact"), ""),
        (list_of("delete", "compact"), "delete,delete"),
        (list_of("delete", "compact"), "delete,"),
        (any_of("delete", "compact"), "delete,"),
        (any_of("delete", "compact"), "delete,,compact"),
        (any_of("delete", "compact"), "shred"),
        (list_of("range", other_names={"a.Range": "range"}), "range,a.Range"),
        (list_of("delete", "compact"), "delete,shred"),
        (string_list(pattern=r"\d"), "1,x"),
        (protocol_map(), "A"),
        (protocol_map(), "A:TLS"),
        (protocol_map(), ":SSL"),
        (protocol_map(), "A:SSL,a:PLAINTEXT"),
        (class_name("a.B"), ""),
        (class_name(None, "a.B"), "a.C"),
        (listener_list(), "PLAINTEXT://a"),
        (listener_list(), "PLAINTEXT://a:65536"),
    ],
)
def test_text_outside_the_range_is_refused(value_type, text):
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the setting's to write
        value_type.parse(text)
