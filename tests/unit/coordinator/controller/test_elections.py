"""Elections when brokers fail and return: every case, and the invariants."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.controller.elections import (
    PARTITIONS_PER_STEP,
    ElectionRules,
    elect,
    elect_after_absence,
    elect_all,
    move_all_away,
    move_away,
)
from cluster.model.cluster import PartitionState
from cluster.model.ids import NO_BROKER, BrokerId, TopicPartition
from tests.support.cluster_states import a_cluster, a_partition, a_topic

CLEAN = ElectionRules(is_unclean=False, min_insync_replicas=1)


def live(*numbers: int) -> set[BrokerId]:
    return set(map(BrokerId, numbers))


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "alive", "unclean", "expected_leader", "expected_isr"),
    [
        # the leader is lost: the next in-sync replica in assignment order
        ([1, 2, 3], [1, 2, 3], 1, [2, 3], False, 2, (2, 3)),
        ([1, 2, 3], [1, 3, 2], 1, [2, 3], False, 2, (3, 2)),
        ([1, 2, 3], [1, 3], 1, [2, 3], False, 3, (3,)),
        # a follower is lost: it leaves the ISR
        ([1, 2, 3], [1, 2, 3], 1, [1, 3], False, 1, (1, 3)),
        # a live leader that is not the preferred one stays
        ([1, 2, 3], [3, 2], 2, [1, 2], False, 2, (2,)),
        # no in-sync replica is alive: no leader, and the ISR records which may lead again
        ([1, 2, 3], [1, 2], 1, [3], False, -1, (1, 2)),
        ([1, 2, 3], [1], 1, [], False, -1, (1,)),
        # unless unclean elections are allowed
        ([1, 2, 3], [1], 1, [3], True, 3, (3,)),
        ([1, 2, 3], [1], 1, [3, 2], True, 2, (2,)),
        ([1, 2, 3], [1], 1, [], True, -1, (1,)),
        # an in-sync replica is preferred to an unclean one
        ([1, 2, 3], [1, 3], 1, [2, 3], True, 3, (3,)),
        # it comes back
        ([1, 2, 3], [1, 2], -1, [2, 3], False, 2, (2,)),
        ([1, 2, 3], [1], -1, [1, 2, 3], False, 1, (1,)),
    ],
)
def test_elect_chooses_the_leader(
    replicas, isr, leader, alive, unclean, expected_leader, expected_isr
):
    before = a_partition(replicas, isr, leader, leader_epoch=7, partition_epoch=20)
    after = elect(before, live(*alive), unclean=unclean)
    assert after is not None
    assert (after.leader, after.isr, after.replicas) == (
        expected_leader,
        expected_isr,
        before.replicas,
    )
    assert after.leader_epoch == (7 if expected_leader == leader else 8)
    assert after.partition_epoch == 21


@pytest.mark.parametrize(
    ("isr", "leader", "alive"),
    [([1, 2], 1, [1, 2, 3]), ([1, 2], 1, [1, 2]), ([1, 2], -1, [3]), ([2], 2, [2, 3])],
)
def test_elect_changes_nothing_without_need(isr, leader, alive):
    assert elect(a_partition([1, 2, 3], isr, leader), live(*alive), unclean=False) is None


@pytest.mark.parametrize(
    ("isr", "leader", "leaving", "others", "expected_leader", "expected_isr"),
    [
        ([1, 2, 3], 1, 1, [2, 3], 2, (2, 3)),
        ([1, 3, 2], 1, 1, [2, 3], 2, (3, 2)),
        ([1, 2, 3], 1, 2, [1, 3], 1, (1, 3)),
        ([1, 2, 3], 1, 1, [3], 3, (3,)),
        # a leader that is also about to stop, and could not be replaced before
        ([1, 2, 3], 1, 2, [3], 3, (3,)),
    ],
)
def test_move_away_gives_leaderships_to_others(
    isr, leader, leaving, others, expected_leader, expected_isr
):
    before = a_partition([1, 2, 3], isr, leader, leader_epoch=4, partition_epoch=9)
    after = move_away(before, BrokerId(leaving), live(*others))
    assert after is not None
    assert (after.leader, after.isr) == (expected_leader, expected_isr)
    assert after.leader_epoch == (4 if expected_leader == leader else 5)
    assert after.partition_epoch == 10


@pytest.mark.parametrize(
    ("isr", "leader", "leaving", "others"),
    [([1], 1, 1, [2, 3]), ([1, 2], 1, 1, [3]), ([1, 2], 1, 3, [1, 2])],
)
def test_move_away_keeps_partitions_without_another_candidate(isr, leader, leaving, others):
    before = a_partition([1, 2, 3], isr, leader)
    assert move_away(before, BrokerId(leaving), live(*others)) is None


@pytest.mark.parametrize(
    ("isr", "leader", "stayed", "alive", "unclean", "expected_leader", "expected_isr"),
    [
        # back before its absence was noticed: the others are certainly in sync
        ([1, 2, 3], 1, [2, 3], [1, 2, 3], False, 2, (2, 3)),
        # a follower that was away has to catch up first
        ([1, 2, 3], 1, [1, 3], [1, 2, 3], False, 1, (1, 3)),
        # no other replica is in sync: it leads again
        ([1], 1, [2, 3], [1, 2, 3], False, 1, (1,)),
        ([1, 2], 1, [3], [1, 2, 3], False, 1, (1, 2)),
        # and is a better choice than one that is out of sync
        ([1], 1, [2, 3], [1, 2, 3], True, 1, (1,)),
        ([1], 1, [2, 3], [2, 3], True, 2, (2,)),
        # the whole cluster was away
        ([2, 3], 2, [], [1, 2, 3], False, 2, (2, 3)),
        ([2, 3], 2, [], [1, 3], False, 3, (3,)),
    ],
)
def test_brokers_that_stayed_are_preferred_to_returned_ones(
    isr, leader, stayed, alive, unclean, expected_leader, expected_isr
):
    before = a_partition([1, 2, 3], isr, leader, leader_epoch=4, partition_epoch=9)
    after = elect_after_absence(before, live(*stayed), live(*alive), unclean=unclean)
    assert after is not None
    assert (after.leader, after.isr) == (expected_leader, expected_isr)
    if leader in stayed:
        assert after.leader_epoch == 4
    else:
        assert after.leader_epoch > 4  # also where the same broker leads again
    assert after.partition_epoch == 10


def test_leaders_stay_when_all_brokers_stayed():
    before = a_partition([1, 2, 3])
    assert elect_after_absence(before, live(1, 2, 3), live(1, 2, 3), unclean=False) is None


def test_elect_all_checks_all_partitions():
    cluster = a_cluster(
        [2],
        a_topic("clean", a_partition([1, 2], [1]), a_partition([2, 1])),
        a_topic("unclean", a_partition([1, 2], [1]), a_partition([2], [2])),
    )
    changed: dict[TopicPartition, PartitionState] = {}
    rules = {"unclean": ElectionRules(True, 1), "clean": ElectionRules(False, 1)}
    steps = elect_all(cluster, lambda _: live(2), live(2), rules.__getitem__, changed, {})
    deque(steps, maxlen=0)
    assert {str(partition): (s.leader, s.isr) for partition, s in changed.items()} == {
        "clean-0": (NO_BROKER, (1,)),
        "clean-1": (2, (2,)),
        "unclean-0": (2, (2,)),
    }


def test_a_step_of_elect_all_is_bounded():
    count = 5 * PARTITIONS_PER_STEP + 1
    cluster = a_cluster([2], a_topic("many", *[a_partition([1, 2])] * count))
    looked_at: list[TopicPartition] = []

    def stayed(partition: TopicPartition) -> set[BrokerId]:
        looked_at.append(partition)
        return live(2)

    changed: dict[TopicPartition, PartitionState] = {}
    per_step = []
    for _ in elect_all(cluster, stayed, live(2), lambda _: CLEAN, changed, {}):
        per_step.append(len(looked_at) - sum(per_step))
    assert per_step == [PARTITIONS_PER_STEP] * 5
    assert len(changed) == count


def test_a_step_of_move_all_away_is_bounded():
    count = 3 * PARTITIONS_PER_STEP
    cluster = a_cluster([1, 2], a_topic("many", *[a_partition([1, 2])] * count))
    changed: dict[TopicPartition, PartitionState] = {}
    sizes = [
        len(changed) for _ in move_all_away(cluster, BrokerId(1), live(2), lambda _: CLEAN, changed)
    ]
    assert sizes == [PARTITIONS_PER_STEP * number for number in (1, 2, 3)]


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    replicas = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    leader = draw(st.sampled_from([*isr, -1]))
    return a_partition(replicas, isr, leader, draw(st.integers(0, 9)), draw(st.integers(0, 9)))


@given(states(), st.sets(st.integers(0, 6).map(BrokerId)), st.booleans())
def test_every_election_keeps_the_invariants(before, alive, unclean):
    after = elect(before, alive, unclean=unclean)
    if after is None:
        assert before.leader in alive or before.leader == NO_BROKER
        return
    assert after.isr
    assert set(after.isr) <= set(after.replicas)
    if after.has_leader:
        assert after.leader in after.isr
        assert set(after.isr) <= alive
        if not unclean:
            assert after.leader in before.isr
            assert set(after.isr) <= set(before.isr)
    else:
        assert not alive & set(before.isr)
        assert after.isr == before.isr
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch == before.leader_epoch + (after.leader != before.leader)
    assert elect(after, alive, unclean=unclean) is None


@given(states(), st.sets(st.integers(0, 6).map(BrokerId)), st.data(), st.booleans())
def test_every_election_after_an_absence_keeps_the_invariants(before, alive, data, unclean):
    stayed = data.draw(st.sets(st.sampled_from(sorted(alive)))) if alive else set()
    after = elect_after_absence(before, stayed, alive, unclean=unclean)
    if after is None:
        assert before.leader in stayed or before.leader == NO_BROKER
        return
    assert after.partition_epoch == before.partition_epoch + 1
    assert set(after.isr) <= set(after.replicas)
    if after.has_leader:
        assert after.leader in after.isr
        assert set(after.isr) <= alive
        assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
        if before.leader not in stayed:
            assert after.leader_epoch > before.leader_epoch
        if set(before.isr) & stayed:
            assert set(after.isr) <= stayed


@given(states(), st.sets(st.integers(0, 6).map(BrokerId)))
def test_every_controlled_shutdown_keeps_the_invariants(before, alive):
    leaving = before.replicas[0]
    after = move_away(before, leaving, alive - {leaving})
    if after is not None:
        assert leaving not in after.isr
        assert after.leader in after.isr
        assert set(after.isr) <= set(before.isr)
