"""Messages between brokers: any input is a message with valid fields, or one short error."""

from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import PartitionEpoch
from cluster.model.topics import TopicAlteration
from cluster.protocol.peer.codec import KINDS, decode, encode
from cluster.protocol.peer.control import (
    Acknowledged,
    AlterTopicConfigs,
    CreateTopics,
    PartitionAltered,
    Request,
)
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
    is_segment_path,
)
from tests.support.peer_messages import (
    ANSWERS,
    REQUESTS,
    STRANGE_VALUES,
    answer_of,
    confused,
    fetch_of,
    packed,
    paths_of,
    unpacked,
    with_value,
)

MESSAGES = (*REQUESTS, *ANSWERS, fetch_of(1, "orders", 2), answer_of("orders"))
REASON_MAX = 250
CONFUSED_MESSAGES = 2_000


def framed(message: object) -> list[bytes]:
    return [bytes(frame) for frame in encode(message)]


def outcome_of(frames: list[bytes]) -> str | None:
    """Why the frames are refused; None if they are a message, which can be sent on."""
    try:
        received = decode(frames)
    except PeerError as error:
        return str(error)
    assert framed(received)
    return None


def refusal_of(frames: list[bytes]) -> str:
    with pytest.raises(PeerError) as caught:
        decode(frames)
    return str(caught.value)


def listed(value: Any) -> Any:
    """Lists for tuples: a message may be made with either."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [listed(each) for each in value]
    return value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_decoded_message_equals_the_encoded_one(message: Any) -> None:
    received = decode(framed(message))

    assert type(received) is type(message)
    for name in type(message).__dataclass_fields__:
        assert listed(getattr(received, name)) == listed(getattr(message, name))
    assert framed(received) == framed(message)


def test_every_kind_has_an_example_here() -> None:
    assert {kind.message for kind in KINDS} == {type(message) for message in MESSAGES}


def test_every_request_has_an_answer_of_the_table() -> None:
    messages = {kind.message for kind in KINDS}
    for kind in KINDS:
        assert (kind.answer in messages) == (
            issubclass(kind.message, Request) or kind.message is FollowerFetch
        )


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_field_of_another_type_is_refused_or_valid(message: Any) -> None:
    """Every value of the message in turn is replaced by every strange one."""
    first, *rest = framed(message)
    content = unpacked(first)
    outcomes = [
        outcome_of([packed(with_value(content, path, value)), *rest])
        for path in paths_of(content)
        for value in STRANGE_VALUES
    ]
    reasons = [outcome for outcome in outcomes if outcome is not None]
    assert len(reasons) > len(STRANGE_VALUES)
    assert max(map(len, reasons)) < REASON_MAX
    assert all(reason.isprintable() for reason in reasons)


def test_mixed_up_messages_are_refused_or_valid() -> None:
    random = Random(1)
    frames = [framed(message) for message in MESSAGES]
    for _ in range(CONFUSED_MESSAGES):
        assert len(outcome_of(confused(random, random.choice(frames))) or "") < REASON_MAX


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_any_bytes_are_refused_or_a_message(frames: list[bytes]) -> None:
    assert len(outcome_of(frames) or "") < REASON_MAX


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([kind.name for kind in KINDS]),
)
def test_any_fields_are_refused_or_a_message(fields: Any, kind: str) -> None:
    assert len(outcome_of([packed([kind, fields])]) or "") < REASON_MAX


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"broker": [1]}, "malformed fetch: broker: a list of 1 is not a number from 0"),
        ({"broker": -1}, "broker: -1 is not"),
        ({"broker": True}, "broker: True is not"),
        ({"machine": 5}, "machine: 5 is not a text"),
        ({"machine": "m" * 256}, "machine: the text 'mmm"),
        ({"session": 2**31}, "session: 2147483648 is not"),
        ({"sequence": "1"}, "sequence: the text '1' is not"),
        ({"max_wait_ms": "x"}, "max_wait_ms: the text 'x' is not"),
        ({"max_wait_ms": None}, "max_wait_ms: None is not"),
        ({"max_wait_ms": -1}, "max_wait_ms: -1 is not"),
        ({"max_bytes": 2**63}, "max_bytes: 9223372036854775808 is not"),
        ({"forgotten": [[{}, 0]]}, "forgotten[0].topic: a map of 0 is not"),
        ({"forgotten": [["t", 0], ["t"]]}, "forgotten[1]: 1 fields instead of 2"),
        ({"forgotten": {}}, "forgotten: a map of 0 is not a list"),
        ({"by_file": 1}, "by_file: 1 is not true or false"),
        ({"partitions": ["five!"]}, "partitions[0]: the text 'five!' is not a list"),
        (
            {"partitions": [["t", 0, "0", 0, 0, 0, 0, 0]]},
            "partitions[0].leader_epoch: the text '0' is not",
        ),
        ({"partitions": [["t", 0, 0, -1, 0, 0, 0, 0]]}, "partitions[0].fetch_offset: -1 is not"),
        (
            {"partitions": [["t", 0, 0, 2**63, 0, 0, 0, 0]]},
            "partitions[0].fetch_offset: 9223372036854775808",
        ),
        ({"partitions": [["t", 0, -2, 0, 0, 0, 0, 0]]}, "partitions[0].leader_epoch: -2 is not"),
        ({"partitions": [[["t"], 0, 0, 0, 0, 0, 0, 0]]}, "partitions[0].topic: a list of 1 is not"),
        ({"partitions": [["t" * 250, 0, 0, 0, 0, 0, 0, 0]]}, "partitions[0].topic: the text 'ttt"),
        ({"partitions": [["t", 0, 0, 0, 0, 0, -1, 0]]}, "partitions[0].handle: -1 is not"),
        ({"partitions": [["t", 0, 0, 0, 0, 0, 0, -1]]}, "partitions[0].max_bytes: -1 is not"),
        (
            {"partitions": [["t", 2**31, 0, 0, 0, 0, 0, 0]]},
            "partitions[0].partition: 2147483648 is not",
        ),
    ],
)
def test_the_reason_names_the_field(change: dict[str, Any], reason: str) -> None:
    names = list(FollowerFetch.__dataclass_fields__)
    kind, fields = unpacked(framed(fetch_of(1, "t"))[0])
    for name, value in change.items():
        fields[names.index(name)] = value

    assert reason in refusal_of([packed([kind, fields])])


FILE = FileSource("/d/t-0/00000000000000000005.log", 1, 0, 10)
INLINE = FetchedPartition("t", 0, 0, ErrorCode.none, 5, 0, None, b"abc")


@pytest.mark.parametrize(
    ("partition", "frames", "reason"),
    [
        (INLINE, [], "0 frames of records instead of 1"),
        (INLINE, [b"abc", b""], "2 frames of records instead of 1"),
        (INLINE, [b"abcd"], "partitions[0]: 4 bytes of records instead of 3"),
        (
            FetchedPartition("t", 0, 0, ErrorCode.none, 5, 6),
            [],
            "log_start_offset: 6 is above the high watermark 5",
        ),
        (
            FetchedPartition("t", 0, 0, ErrorCode.none, 5, 0, (1, 2), b"abc"),
            [b"abc"],
            "source: records beside",
        ),
        (
            FetchedPartition("t", 0, 0, ErrorCode.not_leader_or_follower, 5, 0, None, FILE),
            [],
            "source: records beside",
        ),
        (
            FetchedPartition("t", 1, 0, ErrorCode.none, 5, 0, None, FILE),
            [],
            "source.path: no path of a segment of this partition",
        ),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(
    partition: FetchedPartition, frames: list[bytes], reason: str
) -> None:
    head = framed(FetchAnswer(1, 0, ErrorCode.none, [partition]))[0]

    assert reason in refusal_of([head, *frames])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/t-0/00000000000000000000.log", True),
        ("t-0/00000000000000000000.log", True),
        ("/data/t-0/00000000000000000000.index", False),
        ("/data/t-0/0000000000000000000.log", False),
        ("/data/t-0/000000000000000000000.log", False),
        ("/data/t-0/0000000000000000000x.log", False),
        (
            "/data/t-0/\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u06600000000000.log",
            False,
        ),
        ("/data/t-1/00000000000000000000.log", False),
        ("/data/not-0/00000000000000000000.log", False),
        ("/data\0/t-0/00000000000000000000.log", False),
        ("/etc/passwd", False),
        ("00000000000000000000.log", False),
        ("", False),
    ],
)
def test_only_segments_of_the_partition_are_read(path: str, expected: bool) -> None:
    assert is_segment_path(path, "t", 0) is expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "t" * 250])
def test_a_topic_s_name_is_safe_as_a_directory_s(name: str) -> None:
    for message in (
        CreateTopics([name], None),
        AlterTopicConfigs([TopicAlteration(name, False, {})], False),
    ):
        assert "is not a topic's name" in refusal_of(framed(message))


def test_an_unknown_error_code_is_an_unknown_error() -> None:
    """A broker of a later version may have codes that this one does not know."""
    kind, _ = unpacked(framed(Acknowledged(ErrorCode.none))[0])

    assert decode([packed([kind, [31_000]])]) == Acknowledged(ErrorCode.unknown_server_error)


def test_invalid_msgpack_is_refused() -> None:
    deep = b"\x91" * 100_000 + b"\xc0"
    for frames in ([], [b""], [b"\xc1"], [b"\x81\x90\x01"], [deep], [b"\xd9\x01\xff"]):
        assert "not a message" in refusal_of(frames)
    assert "not a message" in refusal_of([msgpack.packb({"fetch": []})])


def test_a_default_is_sent_like_any_value() -> None:
    answer = decode(framed(PartitionAltered(ErrorCode.not_controller)))

    assert answer == PartitionAltered(ErrorCode.not_controller, (), PartitionEpoch(-1))


def test_positions_of_many_partitions_are_kept_in_order() -> None:
    positions = [FetchPosition(f"t{n}", n, 1, n, 0, 0) for n in range(2_000)]
    fetch = FollowerFetch(1, "here", 1, 0, positions, [], 0, 0, False)

    assert list(decode(framed(fetch)).partitions) == positions
