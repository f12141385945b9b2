"""Records of `__transaction_state`: bytes of Kafka 4.1, round trips, and anything else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord
from cluster.coordinator.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.ids import TopicPartition
from tests.support.examples import examples

# Written by `TransactionLogKey` and `TransactionLogValue` of Kafka 4.1.0.
KEY = "000000057061792d31"
START = "000000000000126700050000ea60"
END = "0000018bcfe5687b0000018bcfe56801"
PARTITIONS_0 = "000000020001610000000200000000000000030001620000000100000007"
PARTITIONS_1 = "030261030000000000000003000262020000000700"
V0_EMPTY = "0000" + START + "00" + "ffffffff" + END
V0_ONGOING = "0000" + START + "01" + PARTITIONS_0 + END
V0_COMPLETE = "0000" + START + "04" + "00000000" + END
V1_EMPTY = "0001" + START + "00" + "00" + END + "00"
V1_ONGOING = "0001" + START + "01" + PARTITIONS_1 + END + "00"
V1_COMPLETE = "0001" + START + "04" + "01" + END + "00"
V1_PREPARE = (
    "0001" + START + "02" + PARTITIONS_1 + END + "03"
    "0008000000000000125c" "010800000000000012c0" "02020002"
)  # fmt: skip

PARTITIONS = frozenset({TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 7)})
EMPTY = StoredTransaction(
    4711,
    5,
    60_000,
    TransactionState.EMPTY,
    last_update_ms=WallMs(1_700_000_000_123),
    start_ms=WallMs(1_700_000_000_001),
)
ONGOING = EMPTY._replace(state=TransactionState.ONGOING, partitions=PARTITIONS)
COMPLETE = EMPTY._replace(state=TransactionState.COMPLETE_COMMIT)
PREPARE = ONGOING._replace(
    state=TransactionState.PREPARE_COMMIT,
    previous_producer_id=4700,
    next_producer_id=4800,
    client_version=2,
)

NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.integers(-1, 253_402_300_799_999).map(WallMs)
STORED = st.builds(
    StoredTransaction,
    producer_id=NUMBERS,
    producer_epoch=st.integers(0, 32_767),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    state=st.sampled_from(
        [each for each in TransactionState if each is not TransactionState.EMPTY]
    ),
    partitions=st.frozensets(
        st.builds(TopicPartition, st.text(max_size=249), st.integers(0, 2**31 - 1)), max_size=20
    ),
    last_update_ms=TIMES,
    start_ms=TIMES,
    previous_producer_id=st.just(-1) | NUMBERS,
    next_producer_id=st.just(-1) | NUMBERS,
    client_version=st.sampled_from([0, 1, 2]),
    last_producer_epoch=st.just(-1),  # not in records
)


def test_a_key_is_kafkas() -> None:
    assert transaction_key("pay-1").hex() == KEY
    assert read_transaction_key(bytes.fromhex(KEY)) == "pay-1"


@pytest.mark.parametrize(
    ("stored", "value"),
    [(EMPTY, V1_EMPTY), (ONGOING, V1_ONGOING), (COMPLETE, V1_COMPLETE), (PREPARE, V1_PREPARE)],
)
def test_a_value_is_kafkas(stored: StoredTransaction, value: str) -> None:
    assert transaction_value(stored).hex() == value
    assert read_transaction_value(bytes.fromhex(value)) == stored


@pytest.mark.parametrize(
    ("stored", "value"), [(EMPTY, V0_EMPTY), (ONGOING, V0_ONGOING), (COMPLETE, V0_COMPLETE)]
)
def test_a_value_of_older_brokers_is_read(stored: StoredTransaction, value: str) -> None:
    assert read_transaction_value(bytes.fromhex(value)) == stored


def test_tags_of_newer_brokers_are_ignored() -> None:
    """Kafka 4.1 knows a fourth one, the next producer's epoch, and does not write it yet."""
    value = bytes.fromhex("0001" + START + "00" + "00" + END + "020202000203020007")
    assert read_transaction_value(value) == EMPTY._replace(client_version=2)


@given(stored=STORED)
@examples(100)
def test_a_transaction_is_read_as_it_was_written(stored: StoredTransaction) -> None:
    assert read_transaction_value(transaction_value(stored)) == stored


@given(transactional_id=st.text(max_size=300))
@examples(100)
def test_a_transactional_id_is_read_as_it_was_written(transactional_id: str) -> None:
    assert read_transaction_key(transaction_key(transactional_id)) == transactional_id


@pytest.mark.parametrize("value", [V0_ONGOING, V1_PREPARE])
def test_a_value_that_was_cut_is_corrupt(value: str) -> None:
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(CorruptRecord):
            read_transaction_value(whole[:size])


@given(data=st.data(), value=st.sampled_from([V0_ONGOING, V1_PREPARE, V1_EMPTY]))
@examples(300)
def test_a_changed_value_is_a_transaction_or_corrupt(data: st.DataObject, value: str) -> None:
    content = bytearray.fromhex(value)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_transaction_value(bytes(content))
    except CorruptRecord:
        return
    assert found.producer_id >= 0
    assert 0 <= found.producer_epoch <= 32_767
    transaction_value(found)


@given(content=st.binary(max_size=80))
@examples(200)
def test_anything_else_is_corrupt_or_unknown(content: bytes) -> None:
    for read in (read_transaction_key, read_transaction_value):
        with contextlib.suppress(CorruptRecord):
            read(content)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (b"", CorruptRecord),
        (b"\0\0\0", CorruptRecord),
        (b"\0\1\0\0", UnknownRecord),
        (b"\0\0\0\5abcd", CorruptRecord),
        (b"\0\0\xff\xffabcd", CorruptRecord),
        (b"\0\0\0\1\xff", CorruptRecord),
    ],
)
def test_a_bad_key_is_refused(key: bytes, error: type[CorruptRecord]) -> None:
    with pytest.raises(error):
        read_transaction_key(key)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("0002" + START + "00" + "00" + END + "00", UnknownRecord),
        ("ffff" + START + "00" + "00" + END + "00", UnknownRecord),
        ("0001" + START + "08" + "00" + END + "00", CorruptRecord),  # state 8
        ("0001" + "ff" * 8 + "00050000ea6000" + "00" + END + "00", CorruptRecord),
        ("0001" + "00" * 8 + "ffff0000ea6000" + "00" + END + "00", CorruptRecord),
        ("0001" + START + "00" + "00" + "7f" * 16 + "00", CorruptRecord),  # times
        ("0001" + START + "00" + "00" + "ff" * 7 + "fe" + "00" * 8 + "00", CorruptRecord),
        ("0001" + START + "01" + "02000100" + END + "00", CorruptRecord),  # no topic
        ("0000" + START + "01" + "7fffffff" + END, CorruptRecord),
        ("0001" + START + "01" + "ffffffff0f" + END + "00", CorruptRecord),
        ("0001" + START + "00" + "00" + END + "010007" + "00" * 7, CorruptRecord),  # a tag
    ],
)
def test_a_bad_value_is_refused(value: str, error: type[CorruptRecord]) -> None:
    with pytest.raises(error) as found:
        read_transaction_value(bytes.fromhex(value))
    assert type(found.value) is error
