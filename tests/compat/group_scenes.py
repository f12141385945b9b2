"""What members of every client go through; many groups at once, since most of it is waiting."""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from tests.compat.confluent_records import produce
from tests.compat.samples import Sample
from tests.support.running_cluster import Cluster
from tests.support.running_members import Member, Place, RunningGroup
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

PARTITIONS = 6
LASTING_MS = 60_000
"""A session that does not end within a test."""


class GroupScene:
    """A group with a topic of its own, and what was written there."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        partitions: int = PARTITIONS,
        client: str = "confluent",
        strategy: str = "range",
        session_ms: int = LASTING_MS,
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self.client = client
        name = unique_name("grouped")
        replicas = min(cluster.size, 3)
        self.topic = create_topic(cluster, name, partitions=partitions, replication_factor=replicas)
        self.group = RunningGroup(
            cluster.bootstrap,
            unique_name("group"),
            [self.topic],
            client=client,
            strategy=strategy,
            session_ms=session_ms,
        )
        self.written: set[tuple[str, int, int]] = set()

    @property
    def places(self) -> list[Place]:
        """All its partitions."""
        return [(self.topic, number) for number in range(self._partitions)]

    def write(self, count: int) -> None:
        """Write so many records, to each partition in turn."""
        samples = [Sample(number % self._partitions, None, b"value") for number in range(count)]
        for error, message in produce(self._cluster.bootstrap, self.topic, samples):
            assert error is None
            self.written.add((self.topic, message.partition(), message.offset()))

    def wait_until_shared(self, members: Sequence[Member]) -> None:
        """Until these members have all partitions among them, each some."""
        self.group.wait_until_shared(members, self.places)

    def wait_until_read(self) -> None:
        """Until everything that was written is read."""
        self.group.wait_until_read(self.written)


@contextlib.contextmanager
def ended(scenes: Iterable[GroupScene]) -> Iterator[None]:
    """At the end, end the members that still run."""
    try:
        yield
    finally:
        for scene in scenes:
            scene.group.end()


def share_and_read(scenes: Sequence[GroupScene], start: Callable[[GroupScene], Member]) -> None:
    """Members come, leave and read: no record is read twice, as none is read before a commit."""

    def all_read() -> None:
        for scene in scenes:
            scene.write(30)
        for scene in scenes:
            scene.wait_until_read()

    first = [start(scene) for scene in scenes]
    for scene, one in zip(scenes, first, strict=True):
        scene.wait_until_shared([one])
    all_read()
    second = [start(scene) for scene in scenes]
    for scene, *both in zip(scenes, first, second, strict=True):
        scene.wait_until_shared(both)
    all_read()
    for one in first:
        one.leave()
    for scene, other in zip(scenes, second, strict=True):
        scene.wait_until_shared([other])
    all_read()
    for other in second:
        other.leave()
    last = [start(scene) for scene in scenes]  # goes on after what was committed
    for scene, one in zip(scenes, last, strict=True):
        scene.wait_until_shared([one])
    all_read()
    for scene, one in zip(scenes, last, strict=True):
        scene.group.check_repeats()
        assert len(one.read) == 30, scene.client


class Process(Protocol):
    """What runs a member, or several."""

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""

    def kill(self) -> None:
        """SIGKILL: no group is told."""


class Pair(NamedTuple):
    """A group of two members."""

    scene: GroupScene
    stays: Member
    goes: Member


class StaticGroup(NamedTuple):
    """The same with static members."""

    pair: Pair
    start_again: Callable[[], Member]
    """Starts a member with the instance id of the one that goes."""


def pause_and_kill(
    processes: Iterable[Process], dynamic: Sequence[Pair], static: Sequence[StaticGroup]
) -> None:
    """`processes` have the members that go: they are paused for longer than the session timeout of
    dynamic members, go on, and are killed. A static member comes back to what it had, unnoticed.
    """
    before = []
    for pair, _ in static:
        pair.scene.wait_until_shared(pair[1:])
        before.append((pair.goes.assignment, pair.stays.assignments_count))
    for scene, *both in dynamic:
        scene.wait_until_shared(both)
    for process in processes:
        process.signal(signal.SIGSTOP)
    for scene, stays, _ in dynamic:
        scene.wait_until_shared([stays])
    for process in processes:
        process.signal(signal.SIGCONT)
    for scene, *both in dynamic:
        scene.wait_until_shared(both)
    for process in processes:
        process.kill()
    again = [start() for _, start in static]
    for (pair, _), one, (had, changes) in zip(static, again, before, strict=True):
        wait_until(lambda one=one, had=had: one.assignment == had, "the same partitions")
        assert pair.stays.assignments_count == changes, pair.scene.client
    for scene, stays, _ in dynamic:
        scene.wait_until_shared([stays])
