"""What a plan of an even spread may do, and what it has reached when it is carried out."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.balancing.plan import plan_even, plan_without
from cluster.balancing.replica_layout import Layout
from cluster.model.ids import BrokerId, TopicPartition
from tests.support.examples import examples
from tests.unit.balancing.layouts import (
    MIB,
    a_layout,
    fewest_shared_racks,
    layouts,
    shared_racks,
)


def leavers(layout: Layout) -> st.SearchStrategy[set[BrokerId]]:
    return st.sets(st.sampled_from(sorted(layout.racks)), max_size=2)


def sum_of_squares(numbers: list[int]) -> int:
    return sum(number * number for number in numbers)


@given(st.data())
@examples(250)
def test_a_plan_keeps_factors_and_uses_each_live_broker_once(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    leaving = data.draw(leavers(layout))
    for plan in (plan_even(layout, leaving), plan_without(leaving, layout)):
        for partition, replicas in plan.moves.items():
            assert partition not in layout.fixed
            assert replicas != layout.replicas[partition]
            assert len(replicas) == len(layout.replicas[partition])
            assert len(set(replicas)) == len(replicas)
            new = set(replicas) - set(layout.replicas[partition])
            assert new <= layout.racks.keys() - leaving
        after = layout.after(plan.moves)
        for partition, replicas in after.replicas.items():
            assert (partition in plan.stuck) or leaving.isdisjoint(replicas)
        for partition, kept in plan.stuck.items():
            assert set(kept) <= set(after.replicas[partition])
            is_fixed = partition in layout.fixed
            assert is_fixed or set(after.replicas[partition]) >= layout.racks.keys() - leaving


@given(st.data())
@examples(250)
def test_a_carried_out_plan_leaves_nothing_to_do(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    leaving = data.draw(leavers(layout))
    after = layout.after(plan_even(layout, leaving).moves)
    assert plan_even(after, leaving).moves == {}
    after = layout.after(plan_without(leaving, layout).moves)
    assert plan_without(leaving, after).moves == {}


@given(layouts())
@examples(250)
def test_replicas_share_racks_only_where_they_must(layout: Layout) -> None:
    after = layout.after(plan_even(layout).moves)
    has_racks = any(layout.racks.values())
    for partition, replicas in after.replicas.items():
        if has_racks and partition not in layout.fixed and layout.racks.keys() >= set(replicas):
            fewest = fewest_shared_racks(layout, len(replicas))
            assert shared_racks(after, partition) == fewest


@given(layouts())
@examples(250)
def test_counts_are_even_without_racks(layout: Layout) -> None:
    layout = Layout(dict.fromkeys(layout.racks), layout.replicas, layout.sizes)
    after = layout.after(plan_even(layout).moves)
    wide = [held for held in after.replicas.values() if not set(held) <= layout.racks.keys()]
    counts = [after.loads()[broker].replicas for broker in layout.racks]
    if not wide:
        assert max(counts) - min(counts) <= 1


@given(layouts())
@examples(250)
def test_only_the_order_of_replicas_changes_where_only_that_is_wrong(layout: Layout) -> None:
    """Where only the order of replicas is wrong, leaders improve and nothing is copied."""
    start = layout.after(plan_even(layout).moves)
    shuffled = {
        partition: replicas[::-1] if number % 2 else replicas
        for number, (partition, replicas) in enumerate(start.replicas.items())
    }
    before = Layout(start.racks, shuffled, start.sizes, start.fixed)
    plan = plan_even(before)
    assert before.copied_bytes(plan.moves) == 0  # only the order was wrong
    after = before.after(plan.moves)
    old = [before.loads()[broker].leaders for broker in layout.racks]
    new = [after.loads()[broker].leaders for broker in layout.racks]
    assert sum_of_squares(new) <= sum_of_squares(old)


def test_a_broker_that_was_added_gets_its_share_by_the_fewest_moves() -> None:
    start = [[n % 3, (n + 1) % 3] for n in range(12)]
    layout = a_layout([None] * 4, start, [10] * 12, topics=2)
    plan = plan_even(layout)
    loads = layout.after(plan.moves).loads()
    assert {load.replicas for load in loads.values()} == {6}
    assert {load.leaders for load in loads.values()} == {3}
    assert layout.copied_bytes(plan.moves) == 6 * 10 * MIB
    on_new = [partition.topic for partition, held in plan.moves.items() if 3 in held]
    assert (on_new.count("t0"), on_new.count("t1")) in ((2, 4), (3, 3), (4, 2))


def test_bytes_are_evened_out_by_exchanges() -> None:
    layout = a_layout([None] * 2, [[0], [0], [1], [1]], [1000, 1000, 10, 10])
    plan = plan_even(layout)
    after = layout.after(plan.moves)
    assert len(plan.moves) == 2
    assert {load.size_bytes for load in after.loads().values()} == {1010 * MIB}
    assert {load.replicas for load in after.loads().values()} == {2}


def test_bytes_within_the_tolerance_stay_where_they_are() -> None:
    layout = a_layout([None] * 2, [[0], [0], [0], [1], [1], [1]], [50, 4, 2, 50, 2, 0])
    assert plan_even(layout).moves == {}
    assert plan_even(layout, tolerance=0.01).moves != {}


def test_an_exchange_that_copies_much_for_little_is_not_made() -> None:
    layout = a_layout([None] * 2, [[0], [1]], [1300, 1000])
    assert plan_even(layout).moves == {}


def test_counts_become_even_through_a_third_broker() -> None:
    """Broker 0 has no partition that broker 2 could take without sharing a rack."""
    racks = ["a", "b", "c", "c"]
    replicas = [[0, 2], [0, 2], [0, 3], [0, 3], [0, 1], [0, 1], [0, 1], [1, 2]]
    layout = a_layout(racks, replicas)
    after = layout.after(plan_even(layout).moves)
    counts = [load.replicas for load in after.loads().values()]
    assert max(counts) - min(counts) <= 1
    assert all(shared_racks(after, partition) == 0 for partition in after.replicas)


def test_leaders_are_evened_out_without_copying() -> None:
    layout = a_layout([None] * 3, [[0, 1, 2]] * 6)
    plan = plan_even(layout)
    assert layout.copied_bytes(plan.moves) == 0
    assert len(plan.moves) == 4
    assert [load.leaders for load in layout.after(plan.moves).loads().values()] == [2, 2, 2]


def test_moving_away_changes_only_what_a_broker_has() -> None:
    layout = a_layout(["a", "a", "b", "b"], [[0, 2], [1, 3], [2, 1], [0, 3]], [5, 1, 1, 5])
    plan = plan_without([BrokerId(0)], layout)
    assert plan.stuck == {}
    assert {partition: set(held) for partition, held in plan.moves.items()} == {
        TopicPartition("t0", 0): {1, 2},
        TopicPartition("t0", 3): {1, 3},
    }


def test_replicas_that_move_away_spread_evenly() -> None:
    """Where each has few brokers to go to, a chain of moves evens out their counts."""
    layout = a_layout([None] * 5, [[0, 1, 2]] * 4 + [[0, 2, 3]] * 4 + [[0, 3, 4]] * 4)
    plan = plan_without([BrokerId(0)], layout)
    loads = layout.after(plan.moves).loads()
    assert [load.replicas for load in loads.values()] == [0, 9, 9, 9, 9]
    assert [load.leaders for load in loads.values()] == [0, 3, 3, 3, 3]
    for partition, replicas in plan.moves.items():
        assert len(set(replicas) - set(layout.replicas[partition])) == 1


def test_replicas_that_no_other_broker_can_take_are_stuck() -> None:
    layout = a_layout([None] * 2, [[0, 1], [0]])
    plan = plan_without([BrokerId(0)], layout)
    assert plan.stuck == {TopicPartition("t0", 0): (1,)}
    assert plan.moves == {TopicPartition("t0", 1): (1,)}
    alone = a_layout([None], [[0]])
    assert plan_without([BrokerId(0)], alone).stuck == {TopicPartition("t0", 0): ()}


def test_replicas_leave_a_dead_broker() -> None:
    layout = a_layout({0: None, 1: None}, [[7, 0], [1, 7]])
    assert layout.brokers_missing() == [7]
    plan = plan_without([BrokerId(7)], layout)
    assert {frozenset(held) for held in plan.moves.values()} == {frozenset((0, 1))}
