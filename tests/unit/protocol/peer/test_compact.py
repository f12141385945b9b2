"""The fixed layouts of usual fetches and answers: what is packed comes back, and sizes are checked.

What leader and follower make of any bytes is tested in `test_hostile_peers`.
"""

from contextlib import suppress
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.compact import (
    ANSWER_ENTRY,
    ANSWER_HEAD,
    COMPACT_ANSWER,
    COMPACT_FETCH,
    COMPACT_REFUSAL,
    ENTRIES_MAX,
    FETCH_ENTRY,
    FETCH_HEAD,
    check_size,
)
from cluster.runtime.local_link import MESSAGE_MAX_BYTES
from tests.support.peer_messages import ANSWERS, REQUESTS, answer_of, fetch_of

KINDS = [COMPACT_FETCH, COMPACT_ANSWER, COMPACT_REFUSAL]
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SEQUENCES = st.integers(0, 2**64 - 1)
LAYOUTS = [(FETCH_HEAD, FETCH_ENTRY), (ANSWER_HEAD, ANSWER_ENTRY)]


@given(
    st.tuples(st.just(COMPACT_FETCH), INT32, INT32, SEQUENCES),
    st.lists(st.tuples(INT32, INT32, INT64, INT32, INT64, INT32), max_size=ENTRIES_MAX),
)
def test_a_fetch_comes_back(head: tuple[int, ...], entries: list[tuple[int, ...]]) -> None:
    assert parsed(packed(FETCH_HEAD, FETCH_ENTRY, head, entries), FETCH_HEAD, FETCH_ENTRY) == (
        head,
        entries,
    )


@given(
    st.tuples(st.sampled_from([COMPACT_ANSWER, COMPACT_REFUSAL]), INT32, SEQUENCES),
    st.lists(st.tuples(INT32, INT32, INT64, INT64, INT64, INT32), max_size=ENTRIES_MAX),
)
def test_an_answer_comes_back(head: tuple[int, ...], entries: list[tuple[int, ...]]) -> None:
    assert parsed(packed(ANSWER_HEAD, ANSWER_ENTRY, head, entries), ANSWER_HEAD, ANSWER_ENTRY) == (
        head,
        entries,
    )


def packed(
    head: Struct, entry: Struct, values: tuple[int, ...], entries: list[tuple[int, ...]]
) -> bytes:
    return head.pack(*values) + b"".join(entry.pack(*each) for each in entries)


def parsed(
    message: bytes, head: Struct, entry: Struct
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    check_size(len(message), head, entry)
    return head.unpack_from(message), list(entry.iter_unpack(message[head.size :]))


@pytest.mark.parametrize(("head", "entry"), LAYOUTS, ids=["fetch", "answer"])
def test_only_whole_messages_of_bounded_size_are_taken(head: Struct, entry: Struct) -> None:
    whole = {head.size + count * entry.size for count in range(ENTRIES_MAX + 1)}
    for size_bytes in range(MESSAGE_MAX_BYTES + 1):
        if size_bytes in whole:
            check_size(size_bytes, head, entry)
        else:
            with pytest.raises(PeerError, match=f"malformed compact message: {size_bytes} bytes"):
                check_size(size_bytes, head, entry)
    assert max(whole) <= MESSAGE_MAX_BYTES // 2  # a message that was cut off is no whole one


@given(st.binary(max_size=300), st.sampled_from(LAYOUTS))
def test_any_bytes_are_values_or_refused(message: bytes, layout: tuple[Struct, Struct]) -> None:
    with suppress(PeerError):
        head, entries = parsed(message, *layout)
        assert packed(*layout, head, entries)[1:4] == bytes(3)  # the padding
        assert len(packed(*layout, head, entries)) == len(message)


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_message_begins_like_a_compact_one(kind: int) -> None:
    for message in (*REQUESTS, *ANSWERS, fetch_of(1, "orders", 2), answer_of("orders")):
        assert bytes(encode(message)[0])[0] not in KINDS
    with pytest.raises(PeerError):
        decode([bytes([kind]) + bytes(50)])
