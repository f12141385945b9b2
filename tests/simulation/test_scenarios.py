"""Single failure scenarios: basic ones, known hard ones, and ones found by random seeds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from cluster.brokers.replication.follower_fetcher import FollowerFetcher
from cluster.model.ids import TopicPartition
from cluster.records.batch import batches_of, checksum
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.local_lines import SimulatedEnd

ORDERS = TopicPartition("orders", 0)
pytestmark = pytest.mark.simulation


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., SimulatedCluster]]:
    """A cluster with the topic `orders`, three replicas of one partition, all in sync."""
    clusters: list[SimulatedCluster] = []

    def make(seed: int = 1, **settings: object) -> SimulatedCluster:
        cluster = SimulatedCluster(seed, tmp_path, **settings)  # type: ignore[arg-type]
        clusters.append(cluster.__enter__())
        assert cluster.create_topic("orders", 1, 3)
        cluster.settle()
        return cluster

    yield make
    for cluster in clusters:
        cluster.__exit__(None, None, None)


def write(cluster: SimulatedCluster, count: int, *, acks: int = -1, to: int | None = None) -> None:
    """Records, one after another, each answered before the next if it can be."""
    for _ in range(count):
        cluster.produce(ORDERS, acks=acks, to=to)
        cluster.world.run_for(50)


def acked(cluster: SimulatedCluster) -> int:
    """How many records were promised, once every message has arrived."""
    cluster.world.run_for(1_000)
    return len(cluster.checks.acked)


def others(cluster: SimulatedCluster, number: int) -> list[int]:
    return [other for other in cluster.brokers if other != number]


def leads(cluster: SimulatedCluster, number: int) -> bool:
    """Whether the broker itself believes that it leads."""
    replica = cluster.brokers[number].table.find(ORDERS)
    return replica is not None and replica.leader is not None


# Local connections


def test_a_full_request_waits_for_what_was_sent_locally_before(new_cluster, monkeypatch):
    """Otherwise the leader would take it for one that others were lost before."""
    cluster = new_cluster(by_file=True, is_local=True)
    write(cluster, 3)
    refused = []

    def wake_late(end: SimulatedEnd) -> None:
        end.node.world.after(100, lambda: end.node.run(end.look))

    def refuse(fetcher: FollowerFetcher, now_ms: int) -> None:
        refused.append(now_ms)

    monkeypatch.setattr(SimulatedEnd, "wake", wake_late)
    monkeypatch.setattr(FollowerFetcher, "_begin_again_later", refuse)
    for number in range(5):
        write(cluster, 1)
        assert cluster.create_topic(f"more-{number}", 1, 3)
        cluster.world.run_for(200)
    assert cluster.lines.delivered > 20
    assert refused == []
    cluster.settle()


# One broker goes


def test_next_leader_has_every_acknowledged_record_when_a_leader_dies(new_cluster):
    cluster = new_cluster()
    write(cluster, 10)
    old = cluster.leader(ORDERS)
    cluster.crash(old)
    cluster.world.run_for(500)
    assert cluster.leader(ORDERS) != old
    write(cluster, 10)
    assert acked(cluster) == 20
    cluster.heal()
    cluster.settle()


def test_a_controlled_shutdown_is_hardly_noticed(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    cluster.stop_cleanly(cluster.leader(ORDERS))
    cluster.world.run_for(100)
    write(cluster, 20)
    assert acked(cluster) == 25
    cluster.heal()
    cluster.settle()


def test_an_idle_follower_is_in_sync_again_after_its_restart(new_cluster):
    cluster = new_cluster()
    write(cluster, 3)
    follower = others(cluster, cluster.leader(ORDERS))[0]
    cluster.crash(follower)
    cluster.world.run_for(1_000)
    assert follower not in cluster.registered_state(ORDERS).isr
    cluster.start(follower)
    cluster.settle(limit_ms=5_000)


def test_produce_is_not_acknowledged_below_min_insync_replicas(new_cluster):
    cluster = new_cluster()
    for follower in others(cluster, cluster.leader(ORDERS)):
        cluster.crash(follower)
    cluster.world.run_for(500)
    write(cluster, 5)
    assert acked(cluster) == 0
    assert cluster.refused_count == 5
    write(cluster, 5, acks=1)
    cluster.heal()
    cluster.settle()


def test_acknowledged_records_survive_a_stop_of_the_whole_cluster(new_cluster):
    cluster = new_cluster()
    write(cluster, 10)
    for number in cluster.brokers:
        cluster.crash(number, noticed=False)
        cluster.world.run_for(100)
    cluster.world.run_for(5_000)
    cluster.heal()
    cluster.settle()
    write(cluster, 5)
    assert acked(cluster) == 15


# Leaders of the past


def test_paused_leader_acknowledges_nothing_when_it_wakes(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    old = cluster.leader(ORDERS)
    cluster.pause(old)
    cluster.world.run_for(3_000)
    new = cluster.leader(ORDERS)
    assert new != old
    write(cluster, 5)
    # Requests that waited in its socket are the first thing it sees.
    for _ in range(5):
        cluster.produce(ORDERS, to=old)
        cluster.produce(ORDERS, acks=1, to=old)
    cluster.world.run_for(500)
    assert acked(cluster) == 10
    cluster.resume(old)
    assert leads(cluster, old)  # it does not know better yet
    cluster.settle()
    assert acked(cluster) == 10


def test_leader_without_the_registry_acknowledges_nothing_once_it_is_replaced(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    old = cluster.leader(ORDERS)
    cluster.cut_from_registry(old)
    cluster.world.run_for(3_000)
    assert leads(cluster, old)
    assert cluster.leader(ORDERS) != old
    write(cluster, 5, to=old)
    write(cluster, 5, to=old, acks=1)
    assert acked(cluster) == 5
    write(cluster, 5)
    cluster.heal()
    cluster.settle()


def test_records_of_a_replaced_leader_alone_are_truncated(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    old = cluster.leader(ORDERS)
    for other in others(cluster, old):
        cluster.separate(old, other)
    write(cluster, 7, acks=1, to=old)
    assert cluster.log_end(old, ORDERS) == 12
    cluster.crash(old)
    cluster.world.run_for(1_000)
    write(cluster, 3)
    assert acked(cluster) == 8
    cluster.heal()
    cluster.settle()
    assert cluster.log_end(old, ORDERS) == 8


def test_replicas_that_parted_in_several_epochs_agree_again(new_cluster):
    """Each leader writes something of its own and dies before anyone has it (KIP-101, KIP-279)."""
    cluster = new_cluster(min_insync_replicas=1)
    write(cluster, 3)
    for turn in range(6):
        leader = cluster.leader(ORDERS)
        for other in others(cluster, leader):
            cluster.separate(leader, other)
        write(cluster, 1 + turn % 3, acks=1, to=leader)
        cluster.crash(leader)
        cluster.world.run_for(300)
        for other in others(cluster, leader):
            cluster.join(leader, other)
        write(cluster, 1)
        cluster.start(leader)
        cluster.world.run_for(50)
    cluster.heal()
    cluster.settle()


def test_replicas_agree_after_an_epoch_without_records(new_cluster):
    """The second leader began an epoch, without records, of which its successor is unaware."""
    cluster = new_cluster()
    write(cluster, 3)
    first = cluster.leader(ORDERS)
    cluster.crash(first)
    cluster.world.run_for(300)
    second = cluster.leader(ORDERS)
    cluster.crash(second)
    cluster.world.run_for(300)
    write(cluster, 2, acks=1)
    cluster.heal()
    cluster.settle(limit_ms=10_000)


def test_long_delayed_messages_are_ignored(new_cluster):
    cluster = new_cluster()
    write(cluster, 3)
    leader = cluster.leader(ORDERS)
    follower = others(cluster, leader)[0]
    cluster.separate(leader, follower)
    write(cluster, 3, acks=1)
    cluster.world.run_for(3_000)
    write(cluster, 3)
    cluster.crash(leader)
    cluster.world.run_for(1_000)
    cluster.start(leader)
    cluster.world.run_for(1_000)
    cluster.join(leader, follower)
    cluster.settle()


# The controller


def test_cluster_recovers_when_the_controller_and_a_leader_die_together(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    controller, leader = cluster.controller.id, cluster.leader(ORDERS)
    for number in {controller, leader}:
        cluster.crash(number)
    cluster.world.run_for(3_000)
    assert cluster.controller.id != controller
    assert cluster.leader(ORDERS) != leader
    cluster.heal()
    cluster.settle()
    write(cluster, 5)
    assert acked(cluster) == 10


def test_a_leader_that_lost_its_tail_does_not_lead_on_under_a_new_controller(new_cluster):
    """It has restarted before the new controller is elected, so its death was not noticed."""
    cluster = new_cluster(seed=3)
    cluster.checks.members_may_lack_records = True
    write(cluster, 20)
    assert acked(cluster) == 20
    leader = cluster.leader(ORDERS)
    controller = cluster.controller.id
    survivors = [n for n in cluster.brokers if n not in (leader, controller)]
    for survivor in survivors:
        # Its look at the cluster takes long: the answer to its election is lost.
        cluster.brokers[survivor].session.answers_to_lose = 1
    for number in {leader, controller}:
        cluster.crash(number)
    cluster.lose_unflushed_tail(leader)
    cluster.world.run_for(60)
    for number in {leader, controller}:
        cluster.start(number)
    cluster.settle()


@pytest.mark.parametrize("waited_ms", [0, 4_000])  # before and after the proposal times out
def test_a_replica_added_to_the_isr_is_waited_for_although_the_answer_was_lost(
    new_cluster, waited_ms
):
    """The controller writes the larger ISR, but its answer and its update are lost.

    Whoever was admitted may lead next, so nothing may be promised without it (KIP-497).
    """
    cluster = new_cluster(seed=1, broker_count=4)
    world = cluster.world
    write(cluster, 3)
    controller, leader = cluster.controller.id, cluster.leader(ORDERS)
    assert controller not in cluster.assignment[ORDERS]  # this seed has it so
    newcomer, third = (n for n in cluster.assignment[ORDERS] if n != leader)
    cluster.crash(newcomer)
    world.run_for(500)
    cluster.start(newcomer)
    assert world.run_until(lambda: newcomer in cluster.registered_state(ORDERS).isr, 5_000)
    assert newcomer not in cluster.brokers[leader].table.find(ORDERS).leader.isr
    cluster.separate(leader, controller)
    cluster.separate(leader, newcomer)
    world.run_for(waited_ms)
    write(cluster, 5, to=leader)
    assert acked(cluster) == 3
    cluster.crash(leader)
    cluster.crash(third)
    world.run_for(1_000)
    assert cluster.leader(ORDERS) == newcomer
    cluster.heal()
    cluster.settle()


def test_a_registration_whose_answer_was_lost_is_found_again(new_cluster):
    cluster = new_cluster()
    number = others(cluster, cluster.controller.id)[0]
    cluster.cut_from_registry(number)
    cluster.world.run_for(3_000)
    cluster.brokers[number].session.answers_to_lose = 1
    cluster.reach_registry(number)
    cluster.settle(limit_ms=15_000)


# Topics


def test_returning_broker_removes_topics_that_were_deleted_meanwhile(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    away = others(cluster, cluster.controller.id)[0]
    cluster.crash(away)
    cluster.world.run_for(500)
    cluster.delete_topic("orders")
    cluster.world.run_for(500)
    assert cluster.assignment == {}
    cluster.start(away)
    cluster.world.run_for(2_000)
    assert all(broker.table.find(ORDERS) is None for broker in cluster.brokers.values())


def test_a_topic_of_the_same_name_begins_empty_everywhere(new_cluster):
    cluster = new_cluster()
    write(cluster, 5)
    away = others(cluster, cluster.controller.id)[0]
    cluster.crash(away)
    cluster.world.run_for(500)
    cluster.delete_topic("orders")
    cluster.world.run_for(500)
    cluster.start(away)
    cluster.world.run_for(5)
    assert cluster.create_topic("orders", 1, 2)
    write(cluster, 3)
    cluster.settle()
    assert acked(cluster) == 8
    assert {cluster.log_end(number, ORDERS) for number in cluster.assignment[ORDERS]} == {3}


# Bytes that go bad


def closed_segments(cluster: SimulatedCluster, number: int) -> list[Path]:
    replica = cluster.brokers[number].table.find(ORDERS)
    assert replica is not None
    return [segment.file.path for segment in replica.log.segments[:-1]]


def stored(cluster: SimulatedCluster, number: int) -> bytes:
    """The batches of a broker's files, one after the other."""
    replica = cluster.brokers[number].table.find(ORDERS)
    assert replica is not None
    files = [segment.file for segment in replica.log.segments]
    return b"".join(file.path.read_bytes()[: file.size_bytes] for file in files)


@pytest.mark.parametrize("seed", range(4))
def test_different_damage_on_each_replica_is_repaired_even_if_the_leader_dies(new_cluster, seed):
    cluster = new_cluster(seed, overrides={"milena.log.scrub.interval.ms": "3000"})
    write(cluster, 80)
    cluster.settle()
    random = Random(seed)
    for number in cluster.brokers:
        path = closed_segments(cluster, number)[number]
        content = bytearray(path.read_bytes())
        content[random.randrange(61, len(content))] ^= 1 << random.randrange(8)
        path.write_bytes(content)
    cluster.world.run_for(random.randrange(4_000))
    dead = cluster.leader(ORDERS)
    cluster.crash(dead)
    write(cluster, 10)
    cluster.world.run_for(random.randrange(10_000))
    cluster.heal()
    cluster.world.run_for(40_000)
    cluster.settle()
    contents = {stored(cluster, number) for number in cluster.brokers}
    assert len(contents) == 1
    (whole,) = contents
    assert all(checksum(batch) == header.crc for header, batch in batches_of(memoryview(whole)))
    assert acked(cluster) >= 80


# Disks


@pytest.mark.parametrize("count", [0, 10])
def test_disks_that_were_not_mounted_at_one_start_lead_again_when_they_are(new_cluster, count):
    """Every broker starts without its disk once, and with it the next time."""
    cluster = new_cluster()
    cluster.checks.members_may_lack_records = True
    write(cluster, count)
    stop(cluster)
    for number in cluster.brokers:
        cluster.unmount(number)
    start(cluster)
    cluster.world.run_for(3_000)
    assert cluster.registered_state(ORDERS).leader == -1
    stop(cluster)
    for number in cluster.brokers:
        cluster.mount(number)
    start(cluster)
    cluster.settle()
    assert acked(cluster) == count


def stop(cluster: SimulatedCluster) -> None:
    """The whole cluster, cleanly."""
    cluster.stop_everything()
    cluster.world.run_for(3_000)
    assert not any(broker.node.is_alive for broker in cluster.brokers.values())


def start(cluster: SimulatedCluster) -> None:
    for number in cluster.brokers:
        cluster.start(number)


def test_a_fetch_from_before_a_disk_was_wiped_brings_nobody_into_the_isr(new_cluster):
    """The leader is paused when it comes, and wakes when the follower is back without anything."""
    cluster = new_cluster()
    leader = cluster.leader(ORDERS)
    follower = others(cluster, leader)[0]
    cluster.crash(follower)
    cluster.world.run_for(300)
    write(cluster, 10)
    cluster.start(follower)
    assert cluster.world.run_until(lambda: cluster.log_end(follower, ORDERS) == 10, 5_000)
    cluster.pause(leader)  # its last fetch is on its way
    cluster.world.run_for(20)
    cluster.crash(follower)
    cluster.world.run_for(60)
    cluster.wipe(follower)
    cluster.separate(leader, follower)
    cluster.start(follower)
    cluster.world.run_for(300)
    assert follower not in cluster.registered_state(ORDERS).isr
    cluster.resume(leader)
    cluster.world.run_for(500)
    assert follower not in cluster.registered_state(ORDERS).isr
    cluster.join(leader, follower)
    cluster.settle()
    assert acked(cluster) == 10
