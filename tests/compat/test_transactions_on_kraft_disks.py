"""Kafka 4.1 and our logs open each other's partition directories with transactions.

`test_transactions_on_disk.py` has whole brokers take turns, on Kafka 3.9 with ZooKeeper.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.builder import ProducerIdentity
from cluster.records.markers import EndMarker
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import require_kafka
from tests.compat.kraft_process import KraftProcess
from tests.compat.test_kafka_log_directories import transact
from tests.compat.test_transactions_on_disk import aborts_of, begin, read
from tests.compat.transaction_side import TransactionSide, Who
from tests.unit.log.log_builder import EVERYTHING, a_batch, append
from tests.unit.log.transaction_log import read_committed, stable

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

THEIRS, OURS = "theirs", "ours"
COMMITTING, ABORTING, OPEN = 9_001, 9_002, 9_003
"""Producer ids of the transactions that our log writes."""
NO_ROOM = LogOptions(segment_bytes=100)
"""Each transaction begins another segment, with a snapshot and a transaction index of its own."""


@contextmanager
def our_log(kafka: KraftProcess, topic: str) -> Iterator[PartitionLog]:
    """Our log on the partition directory of a node that is stopped."""
    log = PartitionLog.open(
        kafka.log_dir / f"{topic}-0",
        TopicPartition(topic, 0),
        NO_ROOM,
        WallMs(time.time_ns() // 1_000_000),
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        high_watermark=Offset(EVERYTHING),
    )
    yield log
    log.close(flush=False)


def end(log: PartitionLog, producer_id: int, epoch: int = 0, *, is_commit: bool) -> None:
    marker = EndMarker(producer_id, epoch, 0, is_commit)
    log.append_marker(marker, LeaderEpoch(0), WallMs(time.time_ns() // 1_000_000))


def write(log: PartitionLog) -> None:
    """A committed transaction of two records, an aborted one and one that stays open."""
    for producer_id in (COMMITTING, ABORTING, OPEN):
        now_ms = time.time_ns() // 1_000_000
        producer = ProducerIdentity(producer_id, 0, 0)
        batch = a_batch(2, timestamp_ms=now_ms, producer=producer, is_transactional=True)
        append(log, batch, wall_ms=WallMs(now_ms))
        if producer_id != OPEN:
            end(log, producer_id, is_commit=producer_id == COMMITTING)


def test_kafka_4_and_our_logs_open_each_others_transactions(tmp_path: Path) -> None:
    require_kafka(NEWEST)
    with (
        KraftProcess(tmp_path / "kafka") as kafka,
        TransactionSide(kafka.address, is_ours=False) as side,
    ):
        bootstrap = "{}:{}".format(*kafka.address)
        (theirs,), (ours,) = side.create(THEIRS), side.create(OURS)
        transact(bootstrap, THEIRS)  # 2 ends the first transaction, 5 aborts the second
        pending = begin(bootstrap, THEIRS)
        assert read(bootstrap, THEIRS) == ([0, 1, 3, 4, 6], [0, 1])
        kafka.stop()
        del pending

        with our_log(kafka, THEIRS) as log:
            assert (list(read_committed(log)), stable(log), log.log_end_offset) == ([0, 1], 6, 7)
            assert aborts_of(log.directory) == [(3, 5, 6)]
            ((producer_id, first),) = log.producers.open_transactions()
            assert first == 6
            end(log, producer_id, log.producers.entries[producer_id].epoch, is_commit=True)
            write(log)  # 8 to 10 committed, 11 to 13 aborted, 14 and 15 open
            assert list(read_committed(log)) == [0, 1, 6, 8, 9]
        for path in (kafka.log_dir / f"{OURS}-0").iterdir():
            if path.name != "partition.metadata":  # it has Kafka's id of the topic
                path.unlink()
        with our_log(kafka, OURS) as log:
            write(log)
            assert len(log.segments) > 2

        kafka.start()
        assert read(bootstrap, THEIRS) == (
            [0, 1, 3, 4, 6, 8, 9, 11, 12, 14, 15],
            [0, 1, 6, 8, 9],
        )
        assert read(bootstrap, OURS) == ([0, 1, 3, 4, 6, 7], [0, 1])
        with TransactionSide(kafka.address, is_ours=False) as again:
            for place, begins_at in ((theirs, 14), (ours, 6)):
                code, producers = again.producers(place)
                assert code is ErrorCode.none
                assert producers[OPEN][3] == begins_at
                assert [producers[each][3] for each in (COMMITTING, ABORTING)] == [-1, -1]
                done = again.write_markers(Who(OPEN, 0), place, commit=place == ours)
                assert done == [ErrorCode.none]
        assert read(bootstrap, THEIRS)[1] == [0, 1, 6, 8, 9]
        assert read(bootstrap, OURS)[1] == [0, 1, 6, 7]
        kafka.stop()

        with our_log(kafka, THEIRS) as log:
            assert list(read_committed(log)) == [0, 1, 6, 8, 9]
            assert stable(log) == log.log_end_offset == 17
            assert aborts_of(log.directory) == [(3, 5, 6), (11, 13, 14), (14, 16, 17)]
        with our_log(kafka, OURS) as log:
            assert list(read_committed(log)) == [0, 1, 6, 7]
            assert stable(log) == log.log_end_offset == 9
            assert aborts_of(log.directory) == [(3, 5, 6)]
    shutil.rmtree(tmp_path / "kafka")
