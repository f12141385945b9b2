"""`import-log` of directories that Kafka has written: codecs, transactions, old formats."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.confluent_records import assigning_consumer, produce, read_all
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_program
from tests.compat.samples import COMPRESSIONS, PARTITIONS, SAMPLES, Sample, by_partition
from tests.compat.test_kafka_log_directories import transact, wait_for_leaders
from tests.support.keyed_records import read_partition
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

NewCluster = Callable[..., Cluster]
FOR_EVER = {"retention.ms": "-1", "segment.bytes": "200000"}


def import_log(cluster: Cluster, *words: object) -> dict[str, object]:
    """The summary of an import that succeeds."""
    done = cluster.command("import-log", "--json", *map(str, words))
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def a_topic(cluster: Cluster, name: str) -> str:
    return create_topic(
        cluster, name, partitions=PARTITIONS, replication_factor=1, configs=FOR_EVER
    )


def read(cluster: Cluster, topic: str) -> dict[int, list[Sample]]:
    with assigning_consumer(cluster.bootstrap) as consumer:
        return read_all(consumer, topic)


def test_records_written_by_kafka_are_imported_unchanged(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    require_kafka()
    cluster = new_cluster(brokers=1).start()
    address = cluster.addresses[0]
    for topic in ("orders", "taken", "ledger", "taken-ledger"):
        a_topic(cluster, topic)
    cluster.kill(0, "TERM", stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")
    with KafkaProcess(
        cluster.log_dir(0), broker_id=0, address=address, registry=cluster.state()["registry"]
    ) as kafka:
        wait_for_leaders(address, "orders", "ledger")
        for codec in COMPRESSIONS:
            delivered = produce(kafka.bootstrap, "orders", SAMPLES, compression_type=codec)
            assert [error for error, _ in delivered if error] == []
        transact(kafka.bootstrap, "ledger")
        kafka.stop()
    for name in (*(f"orders-{n}" for n in range(PARTITIONS)), "ledger-0"):
        shutil.copytree(cluster.log_dir(0) / name, tmp_path / name)

    cluster.restart(0)
    wait_for_leaders(address, "taken", "taken-ledger")
    for partition in range(PARTITIONS):
        import_log(cluster, tmp_path / f"orders-{partition}", "--topic", "taken")
    once = by_partition(SAMPLES)
    assert read(cluster, "taken") == {
        partition: samples * len(COMPRESSIONS) for partition, samples in once.items()
    }
    summary = import_log(cluster, tmp_path / "ledger-0", "--topic", "taken-ledger")
    assert summary["records"] == 2
    assert summary["left_out"] == {
        "control_batches": 2,
        "aborted_records": 2,
        "open_records": 0,
        "earlier_records": 0,
    }
    assert [sample.value for sample in read(cluster, "taken-ledger")[0]] == [b"debit", b"credit"]


def test_old_formats_come_in_by_import_and_by_the_start_of_a_broker(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    run_program("OldFormats", str(tmp_path))
    cluster = new_cluster(brokers=1).start()
    found = {}
    for magic in (0, 1):
        topic = a_topic(cluster, f"taken{magic}")
        directory = tmp_path / f"old{magic}-0"
        summary = import_log(cluster, directory, "--topic", topic)
        found[magic] = read(cluster, topic)[0]
        assert summary["converted_records"] == len(found[magic]) == (12 if magic == 0 else 24)
        assert [sample.value for sample in found[magic][:2]] == [b"value 100" * 20, None]
        a_topic(cluster, f"opened{magic}")
    cluster.stop()
    for magic in (0, 1):
        (log,) = (tmp_path / f"old{magic}-0").iterdir()
        home = cluster.log_dir(0) / f"opened{magic}-0"
        for path in home.glob("0*"):
            path.unlink()
        shutil.copy(log, home)
    cluster.start()
    for magic in (0, 1):
        wait_for_leaders(cluster.addresses[0], f"opened{magic}")
        opened = read_partition(cluster.bootstrap, f"opened{magic}")
        assert [(key, value) for _, key, value, _ in opened] == [
            (sample.key, sample.value) for sample in found[magic]
        ]
        offsets = [offset for offset, *_ in opened]
        assert offsets[:6] == [100, 101, 102, 105, 106, 107]
