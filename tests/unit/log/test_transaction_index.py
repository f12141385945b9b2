"""The transaction index: Kafka's layout, and the refusal of damaged files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    DamagedTransactionIndex,
    decode_transactions,
    encode_transactions,
    read_transactions,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
SHOWN = AbortedTransaction(7, 10, 12, 10)
BYTES = bytes.fromhex("0000 0000000000000007 000000000000000a 000000000000000c 000000000000000a")


def test_an_entry_has_the_34_bytes_of_kafka():
    assert encode_transactions([SHOWN]) == BYTES
    assert len(BYTES) == ENTRY_BYTES


@given(st.lists(st.builds(AbortedTransaction, INT64, INT64, INT64, INT64)))
def test_transaction_index_is_read_as_it_was_written(transactions):
    ordered = sorted({each.last_offset: each for each in transactions}.items())
    written = [transaction for _, transaction in ordered]
    assert decode_transactions(encode_transactions(written)) == written


def test_a_file_is_read_as_written_and_an_absent_one_is_empty(tmp_path):
    path = segment_path(tmp_path, 12, TRANSACTION_INDEX_SUFFIX)
    assert path.name == "00000000000000000012.txnindex"
    assert read_transactions(path) == []
    path.write_bytes(encode_transactions([SHOWN]))
    assert read_transactions(path) == [SHOWN]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BYTES[:-1], "33 bytes are not whole entries"),
        (b"\x00\x01" + BYTES[2:], "entry 0 has version 1"),
        (BYTES + BYTES, "entry 1 is out of order"),
    ],
)
def test_a_damaged_file_is_refused(content, reason):
    with pytest.raises(DamagedTransactionIndex, match=reason):
        decode_transactions(content)


def test_a_file_that_cannot_be_read_is_damaged(tmp_path):
    with pytest.raises(DamagedTransactionIndex):
        read_transactions(tmp_path)
