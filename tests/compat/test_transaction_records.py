"""Kafka's dump tool, of two releases, reads what the transaction coordinator writes."""

import json
import re
from pathlib import Path

import pytest

from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.records.builder import NewRecord, build_batch
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import require_kafka, run_tool
from tests.support.transaction_stage import ID, P0, P1, TIMEOUT_MS, WALL_MS, TransactionStage

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

DUMP = ("kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files")
_OLDER = re.compile(r"transactionalId=(\S*) payload: (?:(.*),txnLast.*|<DELETE>)$", re.MULTILINE)
_NEWER = re.compile(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", re.MULTILINE)
_ORDERS = [{"topic": "orders", "partitionIds": [0, 1]}]


@pytest.fixture
def segment(tmp_path: Path) -> str:
    """A life of a transactional id, in the last epoch of its producer id."""
    stage = TransactionStage(marks=True).loaded_with(
        **{ID: StoredTransaction(7, LAST_EPOCH, TIMEOUT_MS)}
    )
    stage.add((7, LAST_EPOCH), P1, P0)
    stage.end((7, LAST_EPOCH))
    stage.write_ends()
    new = [NewRecord(value, key, WALL_MS) for key, value in stage.log]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(build_batch([*new, NewRecord(None, new[0].key, WALL_MS)])))
    return str(path)


def test_kafka_39_reads_our_transactions(segment: str) -> None:
    require_kafka()
    beyond = LAST_EPOCH + 1
    assert _OLDER.findall(run_tool(*DUMP, segment)) == [
        (ID, f"producerId:7,producerEpoch:{LAST_EPOCH},state=Empty,partitions=[]"),
        (
            ID,
            f"producerId:7,producerEpoch:{LAST_EPOCH},state=Ongoing,partitions=[orders-0,orders-1]",
        ),
        (
            ID,
            f"producerId:7,producerEpoch:{beyond},state=PrepareCommit,"
            "partitions=[orders-0,orders-1]",
        ),
        (ID, "producerId:1000,producerEpoch:0,state=CompleteCommit,partitions=[]"),
        (ID, ""),
    ]


def test_kafka_41_reads_our_transactions(segment: str) -> None:
    require_kafka(NEWEST)
    found = _NEWER.findall(run_tool(*DUMP, segment, version=NEWEST))
    key = {"type": "0", "data": {"transactionalId": ID}}
    assert [json.loads(each) for each, _ in found] == [key] * 5
    *values, deleted = (value for _, value in found)
    assert deleted == "<DELETE>"
    shown = [json.loads(value) for value in values]
    assert {each["version"] for each in shown} == {"1"}
    times = [
        tuple(each["data"].pop(f"transaction{what}TimestampMs") for what in ("Start", "LastUpdate"))
        for each in shown
    ]
    now_ms = WALL_MS + 1_000
    assert times == [(-1, -1), *[(now_ms, now_ms)] * 3], "the last one has the time of its markers"
    common = {"producerId": 7, "transactionTimeoutMs": TIMEOUT_MS}
    version = {"clientTransactionVersion": 2}
    beyond = {"producerEpoch": LAST_EPOCH + 1, "nextProducerId": 1_000, **version}
    ended = {"producerId": 1_000, "producerEpoch": 0, "previousProducerId": 7, **version}
    last = {"producerEpoch": LAST_EPOCH}
    assert [each["data"] for each in shown] == [
        {**common, **last, "transactionStatus": 0, "transactionPartitions": None},
        {**common, **last, **version, "transactionStatus": 1, "transactionPartitions": _ORDERS},
        {**common, **beyond, "transactionStatus": 2, "transactionPartitions": _ORDERS},
        {**common, **ended, "transactionStatus": 4, "transactionPartitions": []},
    ]
