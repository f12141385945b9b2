"""A whole cluster in one thread: brokers, registry, producers, and the faults that befall them."""

import errno
import logging
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import MappingProxyType, TracebackType
from typing import Any, Self

from cluster.coordinator.controller.leader_elections import ElectionType
from cluster.coordinator.registry.documents import paths, znodes
from cluster.coordinator.registry.documents.znodes import PartitionStateRecord, TopicAssignment
from cluster.model.cluster import PartitionState
from cluster.model.errors import StorageFailed, UserError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import NewTopic
from cluster.records.builder import NewRecord, build_batch
from tests.simulation.broker import SimulatedBroker
from tests.simulation.checks import (
    Acked,
    Checks,
    Deleted,
    Replicated,
    decode_state,
    replicated,
    state_path,
)
from tests.simulation.local_lines import LocalLines
from tests.simulation.registry import REGISTRY, SESSION_TIMEOUT_MS
from tests.simulation.world import TraceHandler, World, log
from tests.support.fake_registry import FakeClient, FakeTree, store_of

QUIET_LIMIT_MS = 90_000


class SimulatedCluster:
    """A deterministic cluster: all events follow from the seed and from the calls of a test."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        *,
        broker_count: int = 3,
        min_insync_replicas: int = 2,
        by_file: bool = False,
        is_local: bool = False,
        directory_count: int = 1,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """`overrides` are settings of every broker. `is_local`: they connect locally, too."""
        self.world = World(seed)
        self.random = Random(seed + 1)
        self.tree = FakeTree()
        self._trace = TraceHandler(self.world)
        self.directory = directory
        self.brokers: dict[int, SimulatedBroker] = {}
        self._assignments: dict[bytes, TopicAssignment] = {}
        self.checks = Checks(self)
        self.refused_count = 0
        self.compacted: set[str] = set()
        """Names of topics whose cleanup.policy is compact."""
        self._is_healed = False
        self.lines = LocalLines(self.world)
        self.is_local = is_local
        self._settings: dict[str, Any] = {
            "min_insync_replicas": min_insync_replicas,
            "by_file": by_file,
            "lines": self.lines if is_local else None,
            "directory_count": directory_count,
            "overrides": overrides or {},
        }
        self._broken: dict[int, Path] = {}
        """The log directory of a broker that cannot be used now."""
        self._lives = dict.fromkeys(range(broker_count), 0)
        self._boots = dict.fromkeys(range(broker_count), 0)
        self._unmounted: dict[int, Path] = {}
        self._copies: dict[int, Path] = {}
        """An older copy of a broker's disks."""
        self._value_count = 0
        registry: Any = FakeClient(self.tree)
        store_of(registry).brokers.prepare()

    def __enter__(self) -> Self:
        log.addHandler(self._trace)
        log.setLevel(logging.INFO)
        log.propagate = False
        for number in self._lives:
            self.start(number)
        self.world.after_each = self.checks.after_event
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        log.removeHandler(self._trace)
        log.propagate = True
        log.setLevel(logging.NOTSET)
        for broker in self.brokers.values():
            if broker.node.is_alive:
                broker.die()

    # Brokers

    def start(self, number: int) -> None:
        """Start a broker that is not alive; tried again while its former life is registered."""
        known = self.brokers.get(number)
        if known is not None and known.node.is_alive:
            return
        self._lives[number] += 1
        self.world.join(number, REGISTRY)
        broker = SimulatedBroker(
            self.world,
            self.tree,
            number,
            self._lives[number],
            self.directory / str(number),
            self._boots[number],
            **self._settings,
        )
        self.world.note(f"broker {number} starts, life {self._lives[number]}")
        self.brokers[number] = broker
        try:
            broker.start()
        except UserError:
            broker.die()
            self.world.after(300, lambda: self.start(number))

    def crash(self, number: int, *, noticed: bool = True) -> None:
        """kill -9; `noticed`: a supervisor ends the session at once, else it times out."""
        broker = self.brokers[number]
        if not broker.node.is_alive:
            return
        self.world.note(f"broker {number} crashes" + ("" if noticed else " unnoticed"))
        broker.die()
        delay_ms = self.random.randrange(5, 50) if noticed else SESSION_TIMEOUT_MS
        self.world.after(delay_ms, broker.session.client.expire)

    def crash_in_turn(self, number: int, *, at_send: bool) -> None:
        """kill -9 in the middle of a turn: when it is about to send its next message, or has done
        everything in a turn except what that put off to its end.
        """
        broker = self.brokers[number]
        if broker.is_up:
            self.world.note(f"broker {number} is to crash in a turn")
            if at_send:
                broker.node.kill_at_send = lambda: self.crash(number)
            else:
                broker.node.kill_before_deferred = lambda: self.crash(number)

    def note_boot(self, number: int) -> None:
        """A broker's next process starts after another boot of its machine."""
        self._boots[number] += 1

    def lose_unflushed_tail(self, number: int) -> None:
        """Its machine loses power: remove a part of what a broker, now down, had written but not
        synced to disk.
        """
        self.note_boot(number)
        for partition in self.brokers[number].table:
            log = partition.log
            flushed, end = log.durability.recovery_point, log.log_end_offset
            if flushed == end:
                continue
            kept = self.random.randrange(flushed, end + 1)
            self.world.note(f"broker {number} loses {partition.id} from {kept} to {end}")
            for segment in reversed(log.segments):
                if segment.base_offset >= kept and segment.base_offset > 0:
                    segment.file.path.unlink()
                    continue
                position = segment.locate(kept)
                with segment.file.path.open("r+b") as file:
                    file.truncate(position)
                break

    def stop_cleanly(self, number: int) -> None:
        """Controlled shutdown."""
        self.world.note(f"broker {number} is asked to stop")

        def on_stopped() -> None:
            self.world.note(f"broker {number} has stopped")
            if self._is_healed:
                self.world.after(100, lambda: self.start(number))

        self.brokers[number].stop_cleanly(on_stopped)

    def stop_everything(self) -> None:
        """Every broker that is up stops, and knows that all of them do."""
        self.world.note("the whole cluster is asked to stop")
        for broker in self.brokers.values():
            if broker.is_up:
                broker.end_with_cluster(lambda: None)

    def pause(self, number: int) -> None:
        """SIGSTOP: nothing runs and nothing is answered; nobody refreshes the session."""
        broker = self.brokers[number]
        if broker.is_up:
            self.world.note(f"broker {number} is paused")
            broker.node.is_paused = True
            broker.session.cut_off()

    def resume(self, number: int) -> None:
        """SIGCONT: it continues with the state that it had when it was paused."""
        broker = self.brokers[number]
        if broker.node.is_alive and broker.node.is_paused:
            self.world.note(f"broker {number} resumes")
            broker.node.resume()
            if broker.node.is_alive:
                broker.session.reach_again()

    def cut_from_registry(self, number: int) -> None:
        """Only the registry is out of reach; peers and clients are not."""
        broker = self.brokers[number]
        if broker.is_up and not broker.session.is_cut_off:
            self.world.note(f"broker {number} is cut off from the registry")
            broker.session.cut_off()

    def reach_registry(self, number: int) -> None:
        broker = self.brokers[number]
        if broker.node.is_alive and broker.session.is_cut_off and not broker.node.is_paused:
            self.world.note(f"broker {number} reaches the registry")
            broker.session.reach_again()

    def separate(self, first: int, second: int) -> None:
        """Cut the network between two brokers."""
        self.world.note(f"brokers {first} and {second} are apart")
        self.world.separate(first, second)

    def join(self, first: int, second: int, *, breaks: bool | None = None) -> None:
        """They reach each other again: see `World.join`."""
        self.world.note(f"brokers {first} and {second} reach each other")
        self.world.join(first, second, breaks=breaks)

    def break_directory(self, number: int, *, noticed: bool) -> None:
        """A disk fails under one of several log directories; `noticed`: by a write at once."""
        broker = self.brokers[number]
        if number in self._broken or not broker.is_up:
            return
        directory = self.random.choice(broker.directories)
        self.world.note(f"log directory {directory.path.name} of broker {number} fails")
        self._broken[number] = path = directory.path
        path.rename(path.with_name("aside"))
        path.write_bytes(b"in the way")
        if noticed:
            failure = StorageFailed("cannot write")
            failure.__cause__ = OSError(errno.EIO, "Input/output error")
            broker.node.run(lambda: broker.table.note_directory_failure(directory, failure))

    def repair_directory(self, number: int) -> None:
        """The disk of a broker that is down works again, with all that was written to it."""
        if number in self._broken and not self.brokers[number].node.is_alive:
            path = self._broken.pop(number)
            self.world.note(f"log directory {path.name} of broker {number} is repaired")
            path.unlink()
            path.with_name("aside").rename(path)

    def wipe(self, number: int) -> None:
        """All disks of a broker that is down are replaced by empty ones."""
        if not self.brokers[number].node.is_alive and number not in self._broken:
            self.world.note(f"the disks of broker {number} are wiped")
            shutil.rmtree(self.directory / str(number), ignore_errors=True)

    def unmount(self, number: int) -> None:
        """One of the disks of a broker that is down is not mounted; an empty directory is there."""
        broker = self.brokers[number]
        if not broker.node.is_alive and number not in self._broken | self._unmounted.keys():
            path = self.random.choice(broker.paths)
            if path.exists():
                self.world.note(f"{path.name} of broker {number} is not mounted")
                path.rename(path.with_name("elsewhere"))
                self._unmounted[number] = path

    def mount(self, number: int) -> None:
        """It is mounted again, over what was written meanwhile."""
        if number in self._unmounted and not self.brokers[number].node.is_alive:
            path = self._unmounted.pop(number)
            if path.with_name("elsewhere").exists():  # else all disks were wiped meanwhile
                self.world.note(f"{path.name} of broker {number} is mounted again")
                shutil.rmtree(path, ignore_errors=True)
                path.with_name("elsewhere").rename(path)

    def remove_replica(self, number: int, partition: TopicPartition) -> None:
        """Somebody removes the directory of one replica, of a broker that is down."""
        if not self.brokers[number].node.is_alive and number not in self._broken:
            for path in self.brokers[number].paths:
                if (path / str(partition)).exists():
                    self.world.note(f"{partition} is removed from the disk of broker {number}")
                    shutil.rmtree(path / str(partition))

    def copy_disks(self, number: int) -> None:
        """Keep a copy of a broker's disks as they are now."""
        if number not in self._broken and (self.directory / str(number)).exists():
            self.world.note(f"the disks of broker {number} are copied")
            self._copies[number] = copy = self.directory / f"{number}-copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.directory / str(number), copy)

    def roll_back(self, number: int) -> None:
        """Put the copy in the place of the disks of a broker that is down."""
        if number in self._copies and number not in self._broken:
            if self.brokers[number].node.is_alive:
                return
            self.world.note(f"the disks of broker {number} are rolled back")
            shutil.rmtree(self.directory / str(number), ignore_errors=True)
            self._copies.pop(number).rename(self.directory / str(number))

    # Topics and records

    @property
    def controller(self) -> SimulatedBroker | None:
        """The live broker that considers itself controller, in the highest epoch."""
        active = [b for b in self.brokers.values() if b.is_up and b.driver.controller is not None]
        return max(active, key=lambda b: b.driver.controller.epoch, default=None)  # type: ignore[union-attr]

    def create_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        configs: Mapping[str, str] = MappingProxyType({}),
        assignment: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> bool:
        """Ask the controller to create a topic. Returns whether it confirms that.

        The replicas of an `assignment` replace both numbers.
        """
        self.world.run_until(lambda: self.controller is not None, QUIET_LIMIT_MS)
        controller = self.controller
        assert controller is not None
        outcomes: list[Any] = []
        replicas = {
            number: tuple(BrokerId(each) for each in brokers)
            for number, brokers in assignment.items()
        }
        if assignment:
            partition_count = replication_factor = -1
        if configs.get("cleanup.policy") == "compact":
            self.compacted.add(name)

        def create() -> None:
            controller.requests.create_topics(
                [NewTopic(name, partition_count, replication_factor, replicas, configs)],
                validate_only=False,
                timeout_ms=1_000,
                on_done=lambda outcomes_by_name, planned: outcomes.append(planned.get(name)),
            )

        controller.node.run(create)
        self.world.run_until(lambda: bool(outcomes), 10_000)
        return bool(outcomes) and outcomes[0] is not None

    @property
    def assignment(self) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Every partition of the registry and its replicas."""
        found = {}
        for name in self.tree.children(paths.TOPICS):
            assignment = self._decoded(self.tree.nodes[paths.topic(name)].document)
            for number, replicas in assignment.replicas.items():
                found[TopicPartition(name, number)] = replicas
        return found

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The topic's id in the registry."""
        node = self.tree.nodes.get(paths.topic(name))
        return None if node is None else self._decoded(node.document).topic_id

    def registered_topic(self, name: str) -> TopicAssignment:
        """The registry's document of a topic that exists."""
        return self._decoded(self.tree.nodes[paths.topic(name)].document)

    def _decoded(self, document: bytes) -> TopicAssignment:
        known = self._assignments.get(document)
        if known is None:
            known = self._assignments[document] = znodes.decode_topic(document)
        return known

    def delete_topic(self, name: str) -> None:
        """Ask the controller to delete a topic, without waiting for the outcome."""
        controller = self.controller
        if controller is not None:
            self.world.note(f"topic {name} is to be deleted")
            controller.node.run(
                lambda: controller.requests.delete_topics([(name, None)], 1_000, lambda _: None)
            )

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None = None, *, of: int | None = None
    ) -> None:
        """Ask for elections of preferred replicas (None: of all), without waiting for the outcome.

        Of the controller, or of a broker that may take itself for it.
        """
        asked = self.controller if of is None else self.brokers[of]
        if asked is not None and asked.is_up:
            requests = asked.requests
            names = "all" if partitions is None else ", ".join(map(str, partitions))
            self.world.note(f"broker {asked.id} is to elect preferred leaders of {names}")
            asked.node.run(
                lambda: requests.elect_leaders(
                    ElectionType.PREFERRED, partitions, 1_000, lambda *_: None
                )
            )

    def registered_state(self, partition: TopicPartition) -> PartitionStateRecord | None:
        """What the registry holds of a partition."""
        node = self.tree.nodes.get(state_path(partition))
        return None if node is None else decode_state(node.document)

    def produce(
        self,
        partition: TopicPartition,
        *,
        acks: int = -1,
        record_count: int = 1,
        to: int | None = None,
    ) -> None:
        """Send a batch to the broker that some broker's metadata names as leader, or to `to`."""
        target = self.believed_leader(partition) if to is None else to
        if target is None:
            return
        first = self._value_count
        self._value_count += record_count
        values = [b"value %d " % n + b"x" * (n % 50) for n in range(first, first + record_count)]
        batch = bytes(
            build_batch([NewRecord(value, None, self.world.wall_ms()) for value in values])
        )

        def on_answer(result: Any, written: Replicated, _is_current_leader: bool) -> None:
            if result.error_code != 0:
                self.refused_count += 1
            elif acks == -1:
                self.promise(written, result.base_offset, values)

        self.send(target, partition, batch, acks, on_answer)

    def send(
        self,
        target: int,
        partition: TopicPartition,
        batch: bytes,
        acks: int,
        on_answer: Callable[[Any, Replicated, bool], None],
        delay_ms: int | None = None,
    ) -> None:
        """A produce request on its way; its answer comes later, or never.

        Those with the same delay arrive in their order. `on_answer` hears too whether it went to
        the present leader, and not to one of the past.
        """

        def arrive() -> None:
            broker = self.brokers[target]
            replica = broker.table.find(partition)
            topic_id = uuid.UUID(int=0) if replica is None else replica.topic_id
            state = self.registered_state(partition)
            is_current_leader = (
                replica is not None
                and state is not None
                and state.leader == target
                and state.leader_epoch == replica.leader_epoch
            )
            broker.produce(
                partition,
                batch,
                acks,
                lambda result: on_answer(
                    result, Replicated(topic_id, partition.partition), is_current_leader
                ),
            )

        self.world.after(self.world.delay_ms() if delay_ms is None else delay_ms, arrive)

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        """Ask the broker that some broker takes for the leader; it answers later, or never."""
        target = self.believed_leader(partition)
        if target is None:
            return

        def arrive() -> None:
            broker = self.brokers[target]
            replica = broker.table.find(partition)
            if replica is not None and broker.node.is_alive:
                of_topic = replicated(replica)
                broker.delete_records(
                    partition,
                    offset,
                    lambda result: self._on_deleted(broker, of_topic, result),
                )

        self.world.note(f"records of {partition} before {offset} are to be deleted")
        self.world.after(self.world.delay_ms(), arrive)

    def _on_deleted(self, leader: SimulatedBroker, partition: Replicated, result: Any) -> None:
        if result.error_code == 0:
            # Those that the leader believes to be alive have confirmed it.
            lives = {
                int(number): self.brokers[number].node.life for number in leader.metadata.brokers
            }
            self.checks.deleted.append(Deleted(partition, result.low_watermark, lives))

    def promise(self, written: Replicated, base_offset: int, values: list[bytes]) -> None:
        """Record that a producer with acks=all got an acknowledgement for these records."""
        self.checks.acked += [
            Acked(written, base_offset + index, value) for index, value in enumerate(values)
        ]

    def believed_state(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition with a leader, as some broker knows it."""
        asked = [broker for broker in self.brokers.values() if broker.is_up]
        if not asked:
            return None
        state = self.random.choice(asked).metadata.partition(partition)
        return state if state is not None and state.has_leader else None

    def believed_leader(self, partition: TopicPartition) -> int | None:
        state = self.believed_state(partition)
        return None if state is None else state.leader

    def log_end(self, number: int, partition: TopicPartition) -> int:
        replica = self.brokers[number].table.find(partition)
        assert replica is not None
        return replica.log.log_end_offset

    def leader(self, partition: TopicPartition) -> BrokerId:
        """The partition's leader in the registry."""
        state = self.registered_state(partition)
        assert state is not None
        return state.leader

    # The end of all faults

    def heal(self) -> None:
        """End all faults: all brokers are up and reach each other and the registry."""
        self.world.note("everything heals")
        self._is_healed = True
        self.lines.refused.clear()
        self.lines.lost_share = 0.0
        for first in self.brokers:
            for second in self.brokers:
                if first < second and self.world.is_apart(first, second):
                    self.join(first, second)
        for number in list(self.brokers):
            node = self.brokers[number].node
            node.kill_at_send = node.kill_before_deferred = None
            self.resume(number)
            self.reach_registry(number)
            if number in self._broken:
                self.crash(number)
                self.repair_directory(number)
            with suppress(KeyError):
                self.start(number)

    def settle(self, limit_ms: int = QUIET_LIMIT_MS) -> None:
        """Wait until all replicas are in sync and the preferred ones lead, then check that no
        acknowledged record is lost.
        """
        in_sync = self.world.run_until(self.checks.everything_is_in_sync, limit_ms)
        assert in_sync, "not everything is in sync again: " + self.describe()
        lead = self.world.run_until(self.checks.preferred_replicas_lead, limit_ms)
        assert lead, "not every preferred replica leads again: " + self.describe()
        self.checks.at_the_end()

    def explain(self, error: BaseException, replay: str) -> None:
        """Add the trace of events, and the command that replays them, to a failure."""
        error.add_note(f"replay: {replay}")
        error.add_note("the last events:\n" + "\n".join(self.world.trace))
        error.add_note(self.describe())

    def describe(self, partitions: Iterable[TopicPartition] | None = None) -> str:
        lines = []
        for partition_id in partitions or self.assignment:
            lines.append(f"{partition_id} registry: {self.registered_state(partition_id)}")
            for number, broker in self.brokers.items():
                replica = broker.table.find(partition_id)
                if replica is not None:
                    lines.append(
                        f"  broker {number} alive={broker.node.is_alive}"
                        f" leader={replica.leader_id} epoch={replica.leader_epoch}"
                        f" end={replica.log.log_end_offset} hw={replica.high_watermark}"
                        f" leads={replica.leader is not None}"
                        + (
                            f" isr={replica.leader.isr} pending={replica.leader.pending_isr}"
                            if replica.leader
                            else ""
                        )
                    )
        controller = self.controller
        lines.append(f"controller: {None if controller is None else controller.id}")
        return "\n".join(lines)
