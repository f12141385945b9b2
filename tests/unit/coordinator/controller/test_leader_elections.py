"""Requested preferred and unclean elections, and returns to preferred replicas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.controller.elections import PARTITIONS_PER_STEP, ElectionRules
from cluster.coordinator.controller.leader_elections import (
    RETURNS_AT_ONCE,
    Elected,
    ElectionType,
    elect_asked,
    elect_preferred,
    return_leaders,
)
from cluster.model.cluster import ClusterState, OfflinePartitions, PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from tests.support.cluster_states import a_cluster, a_partition, a_topic

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
NOT_NEEDED = ErrorCode.election_not_needed


def live(*numbers: int) -> set[BrokerId]:
    return set(map(BrokerId, numbers))


def rules_of(_topic: str) -> ElectionRules:
    return ElectionRules(is_unclean=False, min_insync_replicas=2)


def orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def elected(
    cluster: ClusterState,
    election: ElectionType,
    asked: list[TopicPartition] | None,
    alive: set[BrokerId],
) -> tuple[dict[TopicPartition, PartitionState], list[tuple[int, ErrorCode]]]:
    changed: dict[TopicPartition, PartitionState] = {}
    outcomes: Elected = []
    for _ in elect_asked(cluster, election, asked, alive, rules_of, changed, outcomes):
        pass
    return changed, [(partition.partition, outcome.code) for partition, outcome in outcomes]


def test_the_preferred_replica_leads_in_a_new_epoch_and_the_isr_stays() -> None:
    before = a_partition([1, 2, 3], [3, 2, 1], 2, leader_epoch=7, partition_epoch=20)
    assert elect_preferred(before, live(1, 2, 3)) == a_partition(
        [1, 2, 3], [3, 2, 1], 1, leader_epoch=8, partition_epoch=21
    )


@pytest.mark.parametrize(
    ("isr", "leader", "alive"),
    [
        ([1, 2], 1, [1, 2]),  # it leads
        ([2, 3], 2, [1, 2, 3]),  # it is not in sync
        ([1, 2], 2, [2, 3]),  # it is dead, or about to stop
    ],
)
def test_a_preferred_replica_that_leads_or_may_not_is_not_elected(
    isr: list[int], leader: int, alive: list[int]
) -> None:
    assert elect_preferred(a_partition([1, 2, 3], isr, leader), live(*alive)) is None


def a_mixed_cluster() -> ClusterState:
    topic = a_topic(
        "orders",
        a_partition([1, 2], [1, 2], 2),  # 1 may lead again
        a_partition([1, 2], [1, 2], 1),  # as it should be
        a_partition([1, 2], [2], 2),  # 1 is not in sync
        a_partition([3, 1], [3], -1),  # there is no leader; the in-sync replica is dead
        a_partition([3], [3], -1),  # and no other broker is live
    )
    return a_cluster([1, 2], topic)


def test_each_partition_has_its_own_outcome_of_a_preferred_election() -> None:
    cluster = a_mixed_cluster()
    asked = [orders(3), orders(0), orders(1), orders(2), orders(9), TopicPartition("no", 0)]

    changed, outcomes = elected(cluster, PREFERRED, asked, live(1, 2))

    unavailable = ErrorCode.preferred_leader_not_available
    assert outcomes == [
        (3, unavailable),
        (0, ErrorCode.none),
        (1, NOT_NEEDED),
        (2, unavailable),
        (9, ErrorCode.unknown_topic_or_partition),
        (0, ErrorCode.unknown_topic_or_partition),
    ]
    assert {partition: state.leader for partition, state in changed.items()} == {orders(0): 1}


def test_each_partition_has_its_own_outcome_of_an_unclean_election() -> None:
    changed, outcomes = elected(
        a_mixed_cluster(), UNCLEAN, [orders(each) for each in range(5)], live(1, 2)
    )
    assert outcomes == [
        (0, NOT_NEEDED),
        (1, NOT_NEEDED),
        (2, NOT_NEEDED),
        (3, ErrorCode.none),
        (4, ErrorCode.eligible_leaders_not_available),
    ]
    assert set(changed) == {orders(3)}
    assert (changed[orders(3)].leader, changed[orders(3)].isr) == (1, (1,))


def test_an_unclean_election_prefers_a_live_replica_in_sync() -> None:
    cluster = a_cluster([1, 2], a_topic("orders", a_partition([1, 2], [2], -1)))
    changed, _ = elected(cluster, UNCLEAN, [orders(0)], live(1, 2))
    assert changed[orders(0)].leader == 2


def test_after_an_unclean_election_below_min_insync_replicas_others_stay_eligible() -> None:
    state = replace(
        a_partition([1, 2, 3], [], -1), eligible=(BrokerId(2), BrokerId(3)), leader=BrokerId(-1)
    )
    cluster = a_cluster([1, 2], a_topic("orders", state))
    changed, _ = elected(cluster, UNCLEAN, [orders(0)], live(1, 2))
    after = changed[orders(0)]
    assert (after.leader, after.isr, after.eligible) == (2, (2,), (3,))


def test_partitions_without_need_are_left_out_when_all_are_asked_for() -> None:
    changed, outcomes = elected(a_mixed_cluster(), PREFERRED, None, live(1, 2))
    unavailable = ErrorCode.preferred_leader_not_available
    assert outcomes == [
        (0, ErrorCode.none),
        (2, unavailable),
        (3, unavailable),
        (4, unavailable),
    ]
    assert set(changed) == {orders(0)}


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    changed, outcomes = elected(a_mixed_cluster(), PREFERRED, [orders(0)] * 2, live(1, 2))
    assert outcomes == [(0, ErrorCode.none)] * 2
    assert changed[orders(0)].leader_epoch == 1


@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
def test_a_replica_on_a_failed_directory_is_not_elected(election: ElectionType) -> None:
    leader = 2 if election is PREFERRED else -1
    topic = a_topic("orders", a_partition([1, 2], [1, 2], leader))
    cluster = a_cluster([1, 2] if election is PREFERRED else [1], topic)
    cluster.set_offline(BrokerId(1), [OfflinePartitions(BrokerId(1), topic.topic_id, (0,))])

    changed, outcomes = elected(cluster, election, [orders(0)], set(cluster.brokers))

    refusal = (
        ErrorCode.preferred_leader_not_available
        if election is PREFERRED
        else ErrorCode.eligible_leaders_not_available
    )
    assert (changed, outcomes) == ({}, [(0, refusal)])


def test_a_preferred_replica_in_a_full_directory_is_not_elected_while_another_leads() -> None:
    topic = a_topic("orders", a_partition([1, 2], [1, 2], 2))
    cluster = a_cluster([1, 2], topic)
    cluster.full.put(BrokerId(1), [OfflinePartitions(BrokerId(1), topic.topic_id, (0,))])
    unavailable = [(0, ErrorCode.preferred_leader_not_available)]
    assert elected(cluster, PREFERRED, [orders(0)], live(1, 2)) == ({}, unavailable)
    assert returned(cluster) == {}
    cluster.full.put(BrokerId(1), ())
    assert set(returned(cluster)) == {orders(0)}


# -- returns ---------------------------------------------------------------------------------------


def returned(
    cluster: ClusterState, percentage: int = 0, of: set[BrokerId] | None = None
) -> dict[TopicPartition, PartitionState]:
    changed: dict[TopicPartition, PartitionState] = {}
    of = set() if of is None else of
    for _ in return_leaders(cluster, set(cluster.brokers), percentage, of, changed):
        pass
    return changed


def test_leadership_returns_to_every_preferred_replica_that_is_in_sync() -> None:
    assert {each: state.leader for each, state in returned(a_mixed_cluster()).items()} == {
        orders(0): 1
    }


def an_uneven_cluster() -> ClusterState:
    """Brokers 1 and 2 are each preferred by ten partitions and do not lead two and one of them."""
    return a_cluster(
        [1, 2],
        a_topic(
            "orders",
            *[a_partition([1, 2], leader=1)] * 8,
            *[a_partition([1, 2], leader=2)] * 2,
            *[a_partition([2, 1], leader=2)] * 9,
            a_partition([2, 1], leader=1),
        ),
    )


@pytest.mark.parametrize(
    ("percentage", "brokers"), [(0, {1, 2}), (9, {1, 2}), (10, {1}), (19, {1}), (20, set())]
)
def test_leaderships_return_to_a_broker_that_leads_too_few(
    percentage: int, brokers: set[int]
) -> None:
    of: set[BrokerId] = set()
    changed = returned(an_uneven_cluster(), percentage, of)
    assert of == brokers
    assert {state.leader for state in changed.values()} == brokers


def test_brokers_that_were_found_before_need_not_be_found_again() -> None:
    changed = returned(an_uneven_cluster(), 100, {BrokerId(2)})
    assert {state.leader for state in changed.values()} == {2}


def test_a_part_of_them_returns_in_each_step() -> None:
    count = RETURNS_AT_ONCE + 5
    cluster = a_cluster([1, 2], a_topic("orders", *[a_partition([1, 2], leader=2)] * count))
    for expected in (RETURNS_AT_ONCE, 5, 0):
        changed = returned(cluster)
        assert len(changed) == expected
        cluster.topics["orders"].partitions.update(
            {partition.partition: state for partition, state in changed.items()}
        )


def test_thousands_of_partitions_are_checked_in_steps() -> None:
    count = PARTITIONS_PER_STEP * 5
    cluster = a_cluster([1, 2], a_topic("orders", *[a_partition([1, 2])] * count))
    changed: dict[TopicPartition, PartitionState] = {}
    assert len(list(return_leaders(cluster, live(1, 2), 0, set(), changed))) >= 5
    steps = elect_asked(cluster, PREFERRED, None, live(1, 2), rules_of, changed, [])
    assert len(list(steps)) == 5


brokers = st.integers(1, 5).map(BrokerId)
partitions = st.lists(brokers, min_size=1, max_size=4, unique=True).flatmap(
    lambda replicas: st.builds(
        a_partition,
        st.just(replicas),
        st.lists(st.sampled_from(replicas), unique=True, min_size=1),
        st.sampled_from([*replicas, BrokerId(-1)]),
    )
)


@given(st.lists(partitions, max_size=6), st.sets(brokers), st.sampled_from(ElectionType))
def test_an_elected_leader_is_a_live_replica_and_in_sync_when_preferred(
    states: list[PartitionState], alive: set[BrokerId], election: ElectionType
) -> None:
    cluster = a_cluster(alive, a_topic("orders", *states))
    changed, outcomes = elected(cluster, election, None, alive)
    for partition, after in changed.items():
        before = cluster.topics["orders"].partitions[partition.partition]
        assert after.leader in alive.intersection(before.replicas, after.isr)
        assert after.leader_epoch == before.leader_epoch + 1
        assert after.partition_epoch == before.partition_epoch + 1
        if election is PREFERRED:
            assert after.leader == before.replicas[0]
            assert after.leader in before.isr
            assert after.isr == before.isr
        else:
            assert not before.has_leader
    assert {number for number, code in outcomes if code is ErrorCode.none} == {
        partition.partition for partition in changed
    }
