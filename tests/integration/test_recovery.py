"""Recovery of whole brokers: shown, stopped in the middle, with files that are damaged."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from cluster.brokers.storage.log_repairs import HELPED_FROM_BYTES
from cluster.datadir.supervisor_socket import NotRunning
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.builder import NewRecord, build_batch
from cluster.records.produced import validate_produced
from tests.support.broker_probes import STARTED_MS
from tests.support.recording_producer import Recorder, read_all
from tests.support.retried import retried
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

NOW_MS = WallMs(STARTED_MS)
HELPER = "repair_process"


def grow(directory: Path, name: TopicPartition, size_bytes: int) -> int:
    """Append to the log of a broker that does not run, as if it had been killed; its new end."""
    log = PartitionLog.open(
        directory / str(name),
        name,
        LogOptions(),
        NOW_MS,
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )
    batch = memoryview(build_batch([NewRecord(bytes(500_000), None, NOW_MS)]))
    for _ in range(size_bytes // len(batch) + 1):
        log.append(validate_produced(batch, log.limits, NOW_MS), LeaderEpoch(0), NOW_MS)
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return log.log_end_offset


def helpers_of(pid: int) -> list[psutil.Process]:
    try:
        children = psutil.Process(pid).children()
        return [child for child in children if any(HELPER in part for part in child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def end_offset(cluster: Cluster, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    try:
        place = KafkaPartition(topic, partition)
        _, end = retried(
            lambda: consumer.get_watermark_offsets(place, timeout=30), "the end of the log"
        )
    finally:
        consumer.close()
    return int(end)


class PausedRecovery:
    """Suspends every helper of a broker as soon as it is there: the recovery lasts until `end`."""

    def __init__(self, cluster: Cluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self.helpers: dict[int, psutil.Process] = {}

    def state(self) -> dict[str, Any] | None:
        """What `status` has of a broker that recovers."""
        try:
            broker = self._cluster.state()["brokers"][self._broker]
        except (NotRunning, OSError):
            return None
        for helper in helpers_of(broker["pid"]) if broker["pid"] else ():
            helper.suspend()
            self.helpers[helper.pid] = helper
        return broker if broker["state"] == "recovering" else None

    def end(self) -> None:
        for helper in self.helpers.values():
            with suppress(psutil.NoSuchProcess):
                helper.resume()


def test_a_recovery_is_shown_and_a_stop_in_the_middle_of_it_works_at_once(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(brokers=1).start()
    topic = create_topic(cluster, "large", partitions=2, replication_factor=1)
    cluster.stop()
    directory = cluster.log_dir(0)
    ends = [grow(directory, TopicPartition(topic, number), HELPED_FROM_BYTES) for number in (0, 1)]

    screen = tmp_path / "screen"
    with screen.open("wb") as output, cluster.start_in_foreground(output) as process:
        recovery = PausedRecovery(cluster, 0)
        broker = wait_until(recovery.state, "the recovery in `status`")
        assert broker["recovery"]["partitions_total"] == 2
        assert 0 <= broker["recovery"]["bytes_done"] <= broker["recovery"]["bytes_total"]
        assert cluster.status()["brokers"][0]["state"] == "recovering"
        assert "recovering logs, " in cluster.command("status").stdout
        cluster.stop()
        assert process.wait(timeout=60) == 0
        recovery.end()
        wait_until(
            lambda: not any(helper.is_running() for helper in recovery.helpers.values()),
            "the helpers' end",
        )
    assert "broker 0: recovering logs, " in screen.read_text()

    cluster.start()
    assert "2 of 2 logs recovered by helper processes" in cluster.log_text("broker-0")
    assert [end_offset(cluster, topic, number) for number in (0, 1)] == ends


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_broker_whose_files_were_damaged_while_it_was_down_serves_everything_again(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides={"log.segment.bytes": "10000"}).start()
    topic = create_topic(cluster, "orders", partitions=3)
    recorder = Recorder(cluster, topic, partitions=3)
    for turn in range(10):
        recorder.produce(f"turn {turn}", 600)
        recorder.flush()
    wait_for_isr(cluster, topic, 3)

    cluster.kill(0, stay_down=True)
    directory = cluster.log_dir(0)
    damages: list[Callable[[Path], object]] = [
        lambda path: flip(path, 100),
        lambda path: path.write_bytes(path.read_bytes()[:777]),
        lambda path: path.write_bytes(b""),
    ]
    for number, damage in enumerate(damages):
        logs = sorted((directory / f"{topic}-{number}").glob("*.log"))
        assert len(logs) > 2
        damage(logs[1])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (directory / name).write_bytes(b"\xff nonsense")
    recorder.produce("meanwhile", 300)
    recorder.flush()

    cluster.restart(0)
    for number in range(3):
        wait_for_isr(cluster, topic, 3, number)
    for other in (1, 2):
        cluster.kill(other, stay_down=True)
    for number in range(3):
        wait_until(lambda at=number: leader(cluster, topic, at) == 0, "broker 0 to lead")

    assert read_all(cluster, topic, 3) == recorder.acknowledged
    assert recorder.failed == []
    assert "Traceback" not in cluster.log_text("broker-0")
    assert cluster.log_lines(0, "checksum does not match")
