"""Groups while their coordinator dies, moves or starts again: no committed offset is lost."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from tests.support.group_requests import (
    commit_offsets,
    committed_in,
    describe_groups,
    fetch_offsets,
    fetched_in,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from tests.support.group_stage import subscription
from tests.support.kafka_wire import ClosedByPeer, WireClient
from tests.support.recording_producer import Recorder
from tests.support.retried import retried
from tests.support.running_cluster import Address, Cluster
from tests.support.running_members import RunningGroup, a_group
from tests.support.topics import create_topic, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

PARTITIONS = 4
CLIENTS = ["confluent", "kafka-python", "aiokafka"]
GROUP = "orders-readers"


def coordinator(cluster: Cluster, group: str = GROUP) -> int:
    """Who coordinates a group, as soon as a live broker names one."""

    def found() -> list[int]:
        for address in cluster.addresses:
            try:
                with WireClient(address, timeout_s=5.0) as client:
                    (told,) = client.call(find_coordinator(group)).coordinators
            except (OSError, ClosedByPeer):  # it is dying, or dead
                continue
            if told.error_code == 0:
                return [told.node_id]
        return []

    return wait_until(found, f"the coordinator of {group}")[0]


def committed(cluster: Cluster, topic: str) -> list[int]:
    """The group's committed offset of each partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    try:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = retried(lambda: consumer.committed(asked, timeout=60), "the committed offsets")
        return [each.offset for each in found]
    finally:
        consumer.close()


class Scene:
    """A group of two members, and records that are written while things happen."""

    def __init__(self, cluster: Cluster, group: RunningGroup, topic: str) -> None:
        self.cluster = cluster
        self.group = group
        self.topic = topic
        self.places = [(topic, number) for number in range(PARTITIONS)]
        self._recorder = Recorder(cluster, topic, partitions=PARTITIONS, enable_idempotence=True)

    def write(self, count: int = 40) -> None:
        """Write records, and wait until they are read."""
        self._recorder.produce("record", count)
        self._recorder.flush()
        self.group.wait_until_read(self.written)

    @property
    def written(self) -> set[tuple[str, int, int]]:
        """Every record that was acknowledged."""
        return {
            (self.topic, partition, offset)
            for partition, offsets in self._recorder.acknowledged.items()
            for offset in offsets
        }

    def check_that_all_is_committed(self) -> None:
        """Every record was read, and the group's offsets are at the ends."""
        ends = [0] * PARTITIONS
        for _, partition, offset in self.written:
            ends[partition] = max(ends[partition], offset + 1)
        assert set(self.group.read) == self.written
        wait_until(lambda: committed(self.cluster, self.topic) == ends, f"commits up to {ends}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_lives_through_the_death_of_its_coordinator(
    new_cluster: NewCluster, client: str
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    with a_group(cluster.bootstrap, GROUP, [topic], client=client) as group:
        scene = Scene(cluster, group, topic)
        members = [group.start(), group.start()]
        group.wait_until_shared(members, scene.places)
        scene.write()
        victim = coordinator(cluster)
        cluster.kill(victim, stay_down=True)
        scene.write()
        wait_until(lambda: coordinator(cluster) != victim, "another coordinator")
        group.wait_until_shared(members, scene.places)
        scene.write()
        scene.check_that_all_is_committed()


class WireMember:
    """A member that joins first, so that it leads, and then does only what it is told."""

    def __init__(self, client: WireClient, group: str) -> None:
        self._client = client
        self._group = group
        self.id: str = client.call(self._join("")).member_id
        self.join()
        assignments = {self.id: b""}
        assert client.call(sync_group(group, self.id, 1, assignments)).error_code == 0

    def _join(self, member_id: str) -> Any:
        protocols = {"range": subscription("orders")}
        return join_group(self._group, member_id, protocols=protocols, session_ms=60_000)

    def join(self) -> None:
        """Join, and learn the generation."""
        joined = self._client.call(self._join(self.id))
        assert (joined.error_code, joined.leader) == (0, self.id)

    def sees(self, state: str, members: int) -> bool:
        """Whether the group is in this state and has so many members; says that it is alive."""
        assert self._client.call(heartbeat(self._group, self.id, 1)).error_code in (0, 22, 27)
        (found,) = self._client.call(describe_groups(self._group)).groups
        return (found.group_state, len(found.members)) == (state, members)

    def leave(self, address: Address) -> None:
        """Leave, as soon as the broker there has loaded the group."""
        with WireClient(address) as client:
            wait_until(
                lambda: client.call(leave_group(self._group, self.id)).error_code == 0,
                f"{self._group} to be loaded",
            )


def test_groups_live_through_the_death_of_their_coordinator_amid_a_rebalance(
    new_cluster: NewCluster,
) -> None:
    """One waits for a member to join, the other for the leader's assignment."""
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    victim = coordinator(cluster)
    names = (f"{GROUP}-{number}" for number in range(1_000))
    other = next(name for name in names if coordinator(cluster, name) == victim)
    with ExitStack() as stack:
        groups = [
            stack.enter_context(a_group(cluster.bootstrap, name, [topic]))
            for name in (GROUP, other)
        ]
        leaders = [
            WireMember(stack.enter_context(WireClient(cluster.addresses[victim])), group.name)
            for group in groups
        ]
        members = [[group.start(), group.start()] for group in groups]
        for leader in leaders:
            wait_until(lambda leader=leader: leader.sees("PreparingRebalance", 3), "the members")
        leaders[1].join()
        assert leaders[0].sees("PreparingRebalance", 3)
        assert leaders[1].sees("CompletingRebalance", 3)
        cluster.kill(victim, stay_down=True)
        wait_until(lambda: coordinator(cluster) != victim, "another coordinator")
        for leader, group in zip(leaders, groups, strict=True):
            leader.leave(cluster.addresses[coordinator(cluster, group.name)])

        places = [(topic, number) for number in range(PARTITIONS)]
        for group, both in zip(groups, members, strict=True):
            group.wait_until_shared(both, places)
        scene = Scene(cluster, groups[0], topic)
        scene.write()
        scene.check_that_all_is_committed()
        groups[1].wait_until_read(scene.written)
        assert [set(group.read.values()) for group in groups] == [{1}, {1}]


def test_a_rolling_restart_loses_and_repeats_nothing(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    with a_group(cluster.bootstrap, GROUP, [topic]) as group:
        scene = Scene(cluster, group, topic)
        members = [group.start(client=client) for client in CLIENTS]
        group.wait_until_shared(members, scene.places)
        for broker in range(cluster.size):
            scene.write()
            cluster.restart(broker)
            wait_for_isr(cluster, CONSUMER_OFFSETS_TOPIC, cluster.size)
            scene.write()
        group.wait_until_shared(members, scene.places)
        scene.check_that_all_is_committed()
        group.check_repeats()


@pytest.mark.parametrize("is_clean", [True, False])
def test_committed_offsets_survive_a_restart_of_the_cluster(
    new_cluster: NewCluster, is_clean: bool
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    with a_group(cluster.bootstrap, GROUP, [topic]) as group:
        scene = Scene(cluster, group, topic)
        member = group.start()
        group.wait_until_shared([member], scene.places)
        scene.write()
        scene.check_that_all_is_committed()
        if is_clean:
            cluster.stop()
        else:
            cluster.kill_everything()
        cluster.start()
        scene.check_that_all_is_committed()
        scene.write()  # the member has found its way back
        scene.check_that_all_is_committed()
        assert set(group.read.values()) == {1}


def test_no_acknowledged_commit_is_lost_when_the_coordinator_dies_while_it_commits(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    create_topic(cluster, "orders", partitions=PARTITIONS)
    victim = coordinator(cluster)
    acknowledged = 0
    with WireClient(cluster.addresses[victim]) as client:
        wait_until(
            lambda: (
                committed_in(client.call(commit_offsets(GROUP, {("orders", 0): 0}, version=9)))
                == [0]
            ),
            "the first commit",
        )
        for offset in range(1, 200):
            client.send(commit_offsets(GROUP, {("orders", 0): offset}, version=9))
        for offset in range(1, 100):
            assert committed_in(client.receive()) == [0]
            acknowledged = offset
        cluster.kill(victim, stay_down=True)
    wait_until(lambda: coordinator(cluster) != victim, "another coordinator")

    def found() -> tuple[int, int] | None:
        with WireClient(cluster.addresses[coordinator(cluster)]) as client:
            asked = fetch_offsets(GROUP, [("orders", 0)], version=9)
            code, offsets = fetched_in(client.call(asked))
        return offsets["orders", 0] if code == 0 else None

    offset, code = wait_until(found, "the coordinator to have loaded")
    assert code == 0
    assert acknowledged <= offset < 200
