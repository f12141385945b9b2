"""Moves of partitions to other replicas."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from cluster.coordinator.controller.elections import ElectionRules
from cluster.coordinator.controller.reassignments import (
    FINISHED_AT_ONCE,
    Answered,
    Reassigning,
    cancel,
    complete,
    move,
    plan_completions,
    plan_moves,
)
from cluster.coordinator.controller.returned_replicas import best_unclean
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from tests.support.cluster_states import a_cluster, a_partition, a_topic

CLEAN = ElectionRules(is_unclean=False, min_insync_replicas=1)
UNCLEAN = CLEAN._replace(is_unclean=True)
ALL = tuple(map(BrokerId, range(1, 10)))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def moved(
    state: PartitionState,
    *target: int,
    live: Collection[int] = ALL,
    rules: ElectionRules = CLEAN,
) -> PartitionState | None:
    alive = ids(*live)
    return move(state, ids(*target), alive, alive, rules)


def moving(
    replicas: list[int], adding: list[int], removing: list[int], isr: list[int], leader: int
) -> PartitionState:
    state = a_partition(replicas, isr, leader, leader_epoch=7, partition_epoch=20)
    return replace(state, adding=ids(*adding), removing=ids(*removing))


def in_sync(state: PartitionState, *isr: int) -> PartitionState:
    return replace(state, isr=ids(*isr))


# Beginning


def test_new_replicas_come_before_those_that_leave_and_leader_and_isr_stay() -> None:
    before = a_partition([1, 2, 3], [2, 3], 2, leader_epoch=7, partition_epoch=19)
    assert moved(before, 4, 2, 5) == moving([4, 2, 5, 1, 3], [4, 5], [1, 3], [2, 3], 2)


def test_replicas_that_are_in_sync_already_only_let_the_others_go() -> None:
    before = a_partition([1, 2, 3], [1, 2, 3], 1, leader_epoch=7, partition_epoch=20)
    assert moved(before, 3, 2) == a_partition([3, 2], [2, 3], 3, leader_epoch=8, partition_epoch=21)


def test_another_order_changes_the_preferred_replica_only() -> None:
    before = a_partition([1, 2], [1, 2], 1, leader_epoch=7, partition_epoch=20)
    after = a_partition([2, 1], [1, 2], 1, leader_epoch=7, partition_epoch=21)
    assert moved(before, 2, 1) == after
    assert moved(after, 2, 1) is None


def test_a_second_target_counts_from_the_original_replicas_and_drops_the_first_one() -> None:
    before = moving([4, 5, 1, 2], [4, 5], [1, 2], [1, 2, 4], 1)
    assert moved(before, 2, 6) == replace(
        moving([2, 6, 1], [6], [1], [1, 2], 1),
        leader_epoch=LeaderEpoch(8),
        partition_epoch=PartitionEpoch(21),
    )


def test_the_original_replicas_as_a_target_end_a_reassignment() -> None:
    before = moving([4, 5, 1, 2], [4, 5], [1, 2], [1, 2, 4], 4)
    assert moved(before, 1, 2) == a_partition([1, 2], [1, 2], 1, leader_epoch=8, partition_epoch=21)


def test_replicas_that_leave_may_be_dead_and_their_target_may_name_dead_ones_that_stay() -> None:
    before = a_partition([1, 2, 3], [3], 3)
    after = moved(before, 2, 4, live=[3, 4])
    assert after is not None
    assert after.adding == (4,)
    assert after.replicas == (2, 4, 1, 3)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ([], "empty replica list"),
        ([1, -2], "includes broker -2, but no such broker is registered"),
        ([10, 10, 1, 1], "the broker 1 more than once"),
        ([4, 5, 4], "the broker 4 more than once"),
        ([1, 10], "includes broker 10, but no such broker is registered"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: list[int], words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        moved(a_partition([1, 2]), *target)
    assert refused.value.code is ErrorCode.invalid_replica_assignment


def test_a_target_may_not_drop_the_only_replicas_that_have_the_records() -> None:
    before = moving([4, 1], [4], [1], [4], 4)
    with pytest.raises(Refused, match="unclean") as refused:
        moved(before, 5)
    assert refused.value.code is ErrorCode.invalid_replica_assignment
    assert moved(before, 4, 5) is not None
    unclean = moved(before, 5, rules=UNCLEAN)
    assert unclean is not None
    assert (unclean.leader, unclean.isr, unclean.leader_epoch) == (1, (1,), 8)


def test_a_partition_without_leader_can_begin_to_move() -> None:
    before = a_partition([1, 2], [1], NO_BROKER, leader_epoch=7)
    after = moved(before, 3, 2, live=[2, 3])
    assert after is not None
    assert (after.leader, after.isr, after.adding) == (NO_BROKER, (1,), (3,))


def test_min_insync_replicas_does_not_count_on_replicas_that_are_added() -> None:
    rules = CLEAN._replace(min_insync_replicas=2)
    before = a_partition([1], [1], 1)
    after = moved(before, 2, rules=rules)
    assert after is not None
    assert after.replication_factor == 1
    assert after.eligible == ()


# Completion


def test_the_old_replicas_go_when_every_new_one_is_in_sync() -> None:
    state = moving([4, 2, 5, 1, 3], [4, 5], [1, 3], [2, 3, 4], 2)
    assert complete(state, ALL, CLEAN) is None
    assert complete(in_sync(state, 2, 3, 4, 5), ALL, CLEAN) == a_partition(
        [4, 2, 5], [2, 4, 5], 2, leader_epoch=8, partition_epoch=21
    )


def test_a_leader_that_goes_is_replaced_by_the_first_replica_that_could_lead() -> None:
    state = moving([4, 5, 1], [4, 5], [1], [1, 5, 4], 1)
    done = complete(state, ids(1, 5), CLEAN)
    assert done == a_partition([4, 5], [5, 4], 5, leader_epoch=8, partition_epoch=21)


@pytest.mark.parametrize("usable", [(), (1,)])
def test_the_old_replicas_stay_while_no_new_one_could_lead(usable: tuple[int, ...]) -> None:
    state = moving([4, 5, 1], [4, 5], [1], [1, 5, 4], 1)
    assert complete(state, ids(*usable), CLEAN) is None


def test_the_old_replicas_stay_while_there_is_no_leader() -> None:
    state = moving([4, 1], [4], [1], [1, 4], NO_BROKER)
    assert complete(state, ALL, CLEAN) is None


def test_a_partition_that_does_not_move_is_not_completed() -> None:
    assert complete(a_partition([1, 2]), ALL, CLEAN) is None


# Cancellation


def test_a_cancelled_reassignment_drops_what_it_added() -> None:
    state = moving([4, 5, 1, 2], [4, 5], [1, 2], [4, 2], 4)
    assert cancel(state, ALL, CLEAN) == a_partition(
        [1, 2], [2], 2, leader_epoch=8, partition_epoch=21
    )


def test_only_a_reassignment_in_progress_can_be_cancelled() -> None:
    with pytest.raises(Refused) as refused:
        cancel(a_partition([1, 2]), ALL, CLEAN)
    assert refused.value.code is ErrorCode.no_reassignment_in_progress


def test_a_reassignment_whose_new_replicas_alone_have_the_records_is_not_cancelled() -> None:
    state = moving([4, 1, 2], [4], [1, 2], [4], 4)
    with pytest.raises(Refused, match="unclean"):
        cancel(state, ALL, CLEAN)
    assert cancel(state, ALL, UNCLEAN).isr == (1,)


def test_a_replica_that_is_being_added_is_the_last_to_be_elected_uncleanly() -> None:
    state = moving([4, 1, 2], [4], [1, 2], [1], NO_BROKER)
    assert best_unclean(state, ids(2, 4)) == 2
    assert best_unclean(state, ids(4)) == 4


# Many partitions


ORDERS = [TopicPartition("orders", number) for number in range(FINISHED_AT_ONCE + 1)]


def test_each_partition_of_a_request_has_its_own_outcome() -> None:
    topic = a_topic("orders", a_partition([1, 2]), moving([3, 1], [3], [1], [1], 1))
    cluster = a_cluster([1, 2, 3], topic)
    changed: dict[TopicPartition, PartitionState] = {}
    outcomes: Answered = []
    asked = [
        (ORDERS[0], ids(3)),
        (ORDERS[0], ids(1, 3)),
        (ORDERS[0], ids(1, 2, 3)),
        (ORDERS[1], None),
        (ORDERS[2], ids(1)),
        (TopicPartition("bills", 0), None),
    ]
    for _ in plan_moves(
        cluster,
        asked,
        lambda _partition: ALL,
        lambda _topic: CLEAN,
        changed,
        outcomes,
        may_change_factor=False,
    ):
        pass
    assert [outcome.code.name for _, outcome in outcomes] == [
        "invalid_replication_factor",
        "none",
        "invalid_replication_factor",
        "none",
        "unknown_topic_or_partition",
        "unknown_topic_or_partition",
    ]
    assert [partition for partition, _ in outcomes] == [partition for partition, _ in asked]
    assert changed == {
        ORDERS[0]: replace(
            a_partition([1, 3, 2], [1, 2], 1, partition_epoch=1), adding=ids(3), removing=ids(2)
        ),
        ORDERS[1]: a_partition([1], [1], 1, leader_epoch=8, partition_epoch=21),
    }


def test_moves_are_completed_in_parts_and_found_again_by_a_new_controller() -> None:
    state = moving([3, 1], [3], [1], [1], 1)
    cluster = a_cluster([1, 3], a_topic("orders", *[state] * len(ORDERS)))
    reassigning = Reassigning(cluster)
    assert list(reassigning.partitions) == ORDERS
    assert [p for p, _ in reassigning.states([ORDERS[5], TopicPartition("bills", 0)])] == [
        ORDERS[5]
    ]
    while reassigning.is_due:
        reassigning.take_due()

    synced = in_sync(state, 1, 3)
    cluster.topics["orders"].partitions.update(dict.fromkeys(range(len(ORDERS)), synced))
    reassigning.on_changed(dict.fromkeys(ORDERS, synced))
    done: dict[TopicPartition, PartitionState] = {}
    parts = 0
    while reassigning.is_due:
        parts += 1
        due = reassigning.take_due()
        for _ in plan_completions(cluster, due, lambda _p: ALL, lambda _t: CLEAN, done):
            pass
    assert parts == 2
    assert set(done) == set(ORDERS)
    reassigning.on_changed(done)
    assert not reassigning.partitions


class UnsearchableNames(list[str]):
    def __contains__(self, name: object) -> bool:
        raise AssertionError(f"looked through all names for {name!r}")


def test_a_deleted_topic_moves_no_more() -> None:
    state = moving([3, 1], [3], [1], [1], 1)
    reassigning = Reassigning(a_cluster([1, 3], a_topic("orders", state)))
    reassigning.on_deleted(UnsearchableNames(["orders"]))
    reassigning.look_again()
    assert not reassigning.is_due
