"""Random histories: producers write while all kinds of faults happen."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from cluster.log.files import LogFiles
from cluster.model.errors import Refused, StorageFailed
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.committer import PARTITIONS, OffsetCommitter
from tests.simulation.consumers import Consumers
from tests.simulation.producer import IdempotentProducer
from tests.simulation.unsynced import Disks
from tests.support.small_disk import space_of

STEPS = 250
_DISK_BYTES = 1_000 << 20


RETENTION_BYTES = 6_000
RETENTION = {
    "log.retention.bytes": str(RETENTION_BYTES),
    "log.retention.check.interval.ms": "400",
    "log.segment.delete.delay.ms": "200",
}
"""Settings of brokers that keep little."""
THROTTLED_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLES = {
    "leader.replication.throttled.rate": "3000",
    "follower.replication.throttled.rate": "3000",
}
"""Settings of brokers whose replicas catch up in seconds."""


class RandomHistory:
    """Steps chosen by the cluster's dice; `run` ends with everything healed and checked.

    Any number of brokers may be down, paused, apart, or without the registry at the same time.
    """

    first_producer_id = 1_000
    """The one of the first idempotent producer. Brokers give none away here."""
    topic_configs: Mapping[str, str] = MappingProxyType({})
    in_flight_max = 1
    """The batches that an idempotent producer sends before it is answered."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._random = cluster.random
        self._producers: list[IdempotentProducer] = []
        self._actions: list[tuple[int, Callable[[], None]]] = [
            (8, self._crash),
            (12, self._restart),
            (2, self._stop_cleanly),
            (5, self._pause),
            (8, self._resume),
            (4, self._cut_from_registry),
            (6, self._reach_registry),
            (5, self._separate),
            (8, self._join),
            (6, self._break_connections),
            (4, self._lose_registry_answer),
            (4, self._flush),
            (4, self._elect_leaders),
            (1, self._create_topic),
            (1, self._delete_topic),
            (4, self._crash_in_turn),
        ]
        if cluster.is_local:
            cluster.lines.lost_share = 0.02
            self._actions += [
                (6, lambda: cluster.lines.break_one(self._random)),
                (4, lambda: cluster.lines.send_garbage(self._random)),
                (3, lambda: cluster.lines.refused.add(self._any_broker())),
                (6, cluster.lines.refused.clear),
            ]

    def run(self, steps: int = STEPS) -> None:
        """Do `steps` random actions on topics, faults and records, then heal all and check."""
        cluster = self._cluster
        cluster.create_topic("orders", 2, min(3, len(cluster.brokers)), self.topic_configs)
        cluster.create_topic("bills", 1, 2, self.topic_configs)
        for number, partition in enumerate(self._writable()):
            producer_id = self.first_producer_id + number
            self._producers.append(
                IdempotentProducer(cluster, partition, producer_id, self.in_flight_max)
            )
        for _ in range(steps):
            self._produce()
            if self._random.random() < 0.3:
                self._any_action()()
            cluster.world.run_for(self._random.choice([1, 3, 10, 30, 100, 300]))
        self._heal()
        cluster.settle()

    @property
    def was_answered(self) -> bool:
        """Whether clients got any answer, or the history shows nothing."""
        return bool(self._cluster.checks.acked or self._cluster.refused_count)

    def _heal(self) -> None:
        self._cluster.heal()

    def _writable(self) -> list[TopicPartition]:
        return [each for each in self._cluster.assignment if each.topic not in INTERNAL_TOPICS]

    def _any_action(self) -> Callable[[], None]:
        weights = [weight for weight, _ in self._actions]
        return self._random.choices([action for _, action in self._actions], weights)[0]

    def _any_broker(self) -> int:
        return self._random.choice(list(self._cluster.brokers))

    def _produce(self) -> None:
        for producer in self._producers:
            producer.step()
        partitions = self._writable()
        for _ in range(self._random.randrange(4)):
            if partitions:
                self._cluster.produce(
                    self._random.choice(partitions),
                    acks=self._random.choice([-1, -1, -1, 1]),
                    record_count=self._random.choice([1, 1, 3]),
                )

    def _crash(self) -> None:
        self._cluster.crash(self._any_broker(), noticed=self._random.random() < 0.7)

    def _crash_in_turn(self) -> None:
        at_send = self._random.random() < 0.5
        self._cluster.crash_in_turn(self._any_broker(), at_send=at_send)

    def _restart(self) -> None:
        self._cluster.start(self._any_broker())

    def _stop_cleanly(self) -> None:
        number = self._any_broker()
        if self._cluster.brokers[number].is_up:
            self._cluster.stop_cleanly(number)

    def _pause(self) -> None:
        self._cluster.pause(self._any_broker())

    def _resume(self) -> None:
        self._cluster.resume(self._any_broker())

    def _cut_from_registry(self) -> None:
        self._cluster.cut_from_registry(self._any_broker())

    def _reach_registry(self) -> None:
        self._cluster.reach_registry(self._any_broker())

    def _pair(self) -> tuple[int, int]:
        first, second = self._random.sample(list(self._cluster.brokers), 2)
        return first, second

    def _separate(self) -> None:
        self._cluster.separate(*self._pair())

    def _join(self) -> None:
        self._cluster.join(*self._pair())

    def _break_connections(self) -> None:
        first, second = self._pair()
        self._cluster.world.note(f"connections of {first} and {second} break")
        self._cluster.world.break_connections(first, second)

    def _lose_registry_answer(self) -> None:
        number = self._any_broker()
        self._cluster.world.note(f"the registry's next answer to {number} is lost")
        self._cluster.brokers[number].session.answers_to_lose = 1

    def _flush(self) -> None:
        broker = self._cluster.brokers[self._any_broker()]
        if broker.node.is_alive:
            for partition in broker.table:
                with suppress(StorageFailed):  # its directory has failed, unnoticed so far
                    partition.log.flush()

    def _elect_leaders(self) -> None:
        partitions = self._random.choice([None, self._random.choice(self._writable())])
        of = self._any_broker() if self._random.random() < 0.2 else None
        self._cluster.elect_leaders(None if partitions is None else [partitions], of=of)

    def _create_topic(self) -> None:
        cluster = self._cluster
        if len(cluster.assignment) < 5 and cluster.controller is not None:
            cluster.create_topic(self._random.choice(["more", "bills"]), 1, 2)

    def _delete_topic(self) -> None:
        self._cluster.delete_topic(self._random.choice(["more", "bills"]))


class GroupCommits(RandomHistory):
    """Groups commit offsets while everything else happens."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._committers = [OffsetCommitter(cluster, f"group {number}") for number in range(4)]

    def run(self, steps: int = STEPS) -> None:
        """Run a history in which no acknowledged offset is lost."""
        replicas = min(3, len(self._cluster.brokers))
        assert self._cluster.create_topic(CONSUMER_OFFSETS_TOPIC, PARTITIONS, replicas)
        super().run(steps)
        for committer in self._committers:
            committer.at_the_end()

    def _produce(self) -> None:
        super()._produce()
        for committer in self._committers:
            committer.step()


class NewerGroups(RandomHistory):
    """Members of the newer consumer protocol come and go while everything else happens."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._consumers = Consumers(cluster, "newer")
        self._actions += [
            (8, lambda: self._consumers.any().crash()),
            (5, lambda: self._consumers.any().leave()),
            (12, lambda: self._consumers.any().restart()),
        ]

    def run(self, steps: int = STEPS) -> None:
        """Run a history in which no partition has two members and no offset is lost."""
        replicas = min(3, len(self._cluster.brokers))
        assert self._cluster.create_topic(CONSUMER_OFFSETS_TOPIC, PARTITIONS, replicas)
        super().run(steps)
        self._consumers.at_the_end()

    def _produce(self) -> None:
        super()._produce()
        self._consumers.step()


class FailingDirectories(RandomHistory):
    """Log directories fail beside everything else, and are repaired while their broker is down.

    Replicas move between them at any time.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._actions += [
            (8, self._break_directory),
            (8, self._repair_directory),
            (12, self._move_replica),
        ]

    def _break_directory(self) -> None:
        noticed = self._random.random() < 0.5
        self._cluster.break_directory(self._any_broker(), noticed=noticed)

    def _move_replica(self) -> None:
        broker = self._cluster.brokers[self._any_broker()]
        partitions = list(broker.table)
        if broker.is_up and partitions:
            partition = self._random.choice(partitions).id
            directory = self._random.choice(broker.directories)
            self._cluster.world.note(f"{partition} of {broker.id} moves to {directory.path.name}")
            with suppress(Refused):  # a directory has failed
                broker.node.run(lambda: broker.core.storage.moves.move(partition, directory.path))

    def _repair_directory(self) -> None:
        number = self._any_broker()
        if self._random.random() < 0.5:
            self._cluster.crash(number)
        self._cluster.repair_directory(number)


class Throttles(RandomHistory):
    """Replication is throttled, at rates that change beside everything else."""

    topic_configs: Mapping[str, str] = MappingProxyType(dict.fromkeys(THROTTLED_REPLICAS, "*"))

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._actions += [(16, self._throttle)]

    def _throttle(self) -> None:
        number = self._any_broker()
        limits = (
            self._random.choice([0, 300, 3_000, None]),
            self._random.choice([0, 300, 3_000, None]),
        )
        self._cluster.world.note(f"{number} replicates {limits} bytes per second")
        self._set(number, limits)

    def _heal(self) -> None:
        super()._heal()
        for number in self._cluster.brokers:
            self._set(number, (20_000, 20_000))

    def _set(self, number: int, limits: tuple[int | None, int | None]) -> None:
        broker = self._cluster.brokers[number]
        if broker.is_up:
            broker.node.run(lambda: broker.core.replication.throttles.set_limits(limits))


class FullDisks(RandomHistory):
    """Log directories fill up, to more or less of their reserve, and have room again."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._free: dict[Path, int] = {}
        """Bytes, of directories that are full."""
        self._actions += [(14, self._fill), (12, self._empty)]

    def run(self, steps: int = STEPS) -> None:
        """Run a history with file systems as it decides."""
        with patch.object(LogFiles, "space", staticmethod(self._space)):
            super().run(steps)

    def _heal(self) -> None:
        self._free.clear()
        super()._heal()

    def _space(self, place: Path | int) -> os.statvfs_result:
        path = Path(f"/proc/self/fd/{place}").readlink() if isinstance(place, int) else place
        free = next((f for full, f in self._free.items() if path.is_relative_to(full)), _DISK_BYTES)
        return space_of(free, _DISK_BYTES)

    def _fill(self) -> None:
        """One broker's directories, or those of all: they may share a disk."""
        brokers = [self._any_broker()]
        if self._random.random() < 0.2:
            brokers = list(self._cluster.brokers)
        free = self._random.choice([0, 7 << 20, 12 << 20])
        self._cluster.world.note(f"the disks of {brokers} have {free >> 20} MiB left")
        for number in brokers:
            self._free.update(dict.fromkeys(self._cluster.brokers[number].paths, free))

    def _empty(self) -> None:
        number = self._any_broker()
        self._cluster.world.note(f"the disk of {number} has room")
        for path in self._cluster.brokers[number].paths:
            self._free.pop(path, None)


class DeletedRecords(RandomHistory):
    """Clients have records deleted, and brokers delete old segments, whatever else fails.

    Ends with a log that is no larger than it may be, on every replica.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._actions.append((20, self._delete_records))

    def _delete_records(self) -> None:
        cluster = self._cluster
        partitions = list(cluster.assignment)
        if partitions:
            partition = self._random.choice(partitions)
            ends = [b.table.find(partition) for b in cluster.brokers.values()]
            most = max((one.high_watermark for one in ends if one is not None), default=0)
            offset = self._random.choice([-1, self._random.randrange(most + 2)])
            cluster.delete_records(partition, offset)

    def run(self, steps: int = STEPS) -> None:
        super().run(steps)
        self._cluster.world.run_for(1_000)
        for broker in self._cluster.brokers.values():
            for partition in broker.table:
                kept = sum(one.file.size_bytes for one in partition.log.segments[1:])
                assert kept <= RETENTION_BYTES


class PowerLosses(RandomHistory):
    """One machine at a time loses what it had not synced, when every replica is in sync.

    That is what replication promises to survive; connections break meanwhile.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        cluster.checks.members_may_lack_records = True
        self._disks = Disks(self._random)
        self._actions = [
            (6, self._lose_power),
            (4, self._break_connections),
            (2, self._lose_registry_answer),
            (6, self._flush),
        ]

    def run(self, steps: int = STEPS) -> None:
        with self._disks.recorded(self._cluster.directory):
            super().run(steps)

    def _lose_power(self) -> None:
        cluster = self._cluster
        if not cluster.checks.everything_is_in_sync():
            return
        number = self._any_broker()
        cluster.crash(number, noticed=self._random.random() < 0.7)
        for path in cluster.brokers[number].paths:
            self._disks.lose_power(path)
        cluster.note_boot(number)
        delay_ms = self._random.choice([0, 10, 100, 3_000])
        cluster.world.after(delay_ms, lambda: cluster.start(number))


class LostDisks(RandomHistory):
    """The disks of one broker at a time are wiped, rolled back to an older copy, or lose a replica,
    while any number of brokers are down; another one's only when every replica is in sync again.
    """

    in_flight_max = 5

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        cluster.checks.members_may_lack_records = True
        self._is_one_lost = False
        self._actions += [
            (10, self._lose_disk),
            (6, self._copy_disk),
            (6, self._mount_again),
            (3, self._everything_stops),
        ]

    def _copy_disk(self) -> None:
        self._cluster.copy_disks(self._any_broker())

    def _mount_again(self) -> None:
        """What such a disk has by then is old."""
        cluster = self._cluster
        if cluster.checks.everything_is_in_sync():
            self._is_one_lost = False
        number = self._any_broker()
        if not self._is_one_lost and self._is_down(number):
            self._is_one_lost = True
            cluster.mount(number)

    def _everything_stops(self) -> None:
        """Stop all brokers like `stop`, or one after the other, or all at once."""
        cluster = self._cluster
        if self._random.random() < 0.4:
            cluster.stop_everything()
            cluster.world.run_for(1_000)
            return
        is_clean = self._random.random() < 0.5
        for number in list(cluster.brokers):
            if is_clean and cluster.brokers[number].is_up:
                cluster.stop_cleanly(number)
                cluster.world.run_for(self._random.choice([0, 50, 500]))
            else:
                cluster.crash(number, noticed=self._random.random() < 0.7)

    def _lose_disk(self) -> None:
        cluster = self._cluster
        if cluster.checks.everything_is_in_sync():
            self._is_one_lost = False
        number = self._any_broker()
        if self._is_one_lost or not self._is_down(number):
            return
        self._is_one_lost = True
        loss = self._random.choice(["wipe", "roll back", "remove", "unmount"])
        if loss == "wipe":
            cluster.wipe(number)
        elif loss == "roll back":
            cluster.roll_back(number)
        elif loss == "unmount":
            cluster.unmount(number)
        else:
            cluster.remove_replica(number, self._random.choice(list(cluster.assignment)))

    def _is_down(self, number: int) -> bool:
        if self._random.random() < 0.5:
            self._cluster.crash(number)
        return not self._cluster.brokers[number].node.is_alive
