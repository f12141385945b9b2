"""What it takes to have no replica on a broker that leaves."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.balancing.departure import plan_departure
from cluster.balancing.replica_layout import Layout
from cluster.model.ids import BrokerId, TopicPartition

A, B, C = (TopicPartition(name, 0) for name in "abc")


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def layout_of(replicas, live, fixed=()):
    racks = dict.fromkeys(brokers(*live))
    return Layout(racks, {p: brokers(*r) for p, r in replicas.items()}, {}, frozenset(fixed))


def test_replicas_move_to_brokers_that_stay():
    layout = layout_of({A: (0, 1), B: (1, 0), C: (0,)}, live=(0, 1, 2))
    departure = plan_departure(BrokerId(1), layout, layout.replicas)
    assert departure.moves.keys() == {A, B}
    assert all(set(replicas) == {0, 2} for replicas in departure.moves.values())
    assert (departure.shorter, departure.bound) == ({}, ())


def test_partitions_with_as_many_replicas_as_brokers_become_shorter():
    layout = layout_of({A: (0, 1, 2), B: (2, 1)}, live=(0, 1, 2))
    departure = plan_departure(BrokerId(2), layout, layout.replicas)
    assert departure.shorter == {A: (0, 1)}
    assert departure.moves.keys() == {B}


def test_partitions_are_bound_if_nobody_else_has_or_can_get_their_records():
    replicas = {A: (1,), B: (0, 1), C: (0, 2)}
    layout = layout_of(replicas, live=(0, 2), fixed=[A])
    assert plan_departure(BrokerId(1), layout, {}).bound == (A,)
    alone = layout_of({A: (1,), B: (0, 1)}, live=(1,))
    assert plan_departure(BrokerId(1), alone, {B: brokers(1)}).bound == (A, B)
    behind = layout_of({B: (0, 1)}, live=(0, 1))
    assert plan_departure(BrokerId(1), behind, {B: brokers(1)}).bound == (B,)
    assert plan_departure(BrokerId(1), behind, {B: brokers(0)}).shorter == {B: brokers(0)}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.integers(0, 3)),
        st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
        max_size=6,
    ),
    st.sets(st.integers(0, 4), min_size=1),
    st.integers(0, 4),
)
def test_every_partition_of_the_broker_moves_shrinks_or_is_named(replicas, live, leaving):
    layout = layout_of({TopicPartition(*p): r for p, r in replicas.items()}, live)
    found = plan_departure(BrokerId(leaving), layout, layout.replicas)
    held = {p for p, r in layout.replicas.items() if leaving in r}
    parts = (set(found.moves), set(found.shorter), set(found.bound))
    assert set().union(*parts) == held
    assert sum(map(len, parts)) == len(held)
    for target in (*found.moves.values(), *found.shorter.values()):
        assert leaving not in target
        assert target
    for partition, target in found.moves.items():
        assert len(target) == len(layout.replicas[partition]) == len(set(target))
