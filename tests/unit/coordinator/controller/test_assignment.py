"""The placement of replicas of new topics."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.controller.assignment import assign_replicas
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId


def brokers(*racks: str | None) -> dict[BrokerId, str | None]:
    """Brokers 0, 1, ... in these racks."""
    return {BrokerId(number): rack for number, rack in enumerate(racks)}


def test_leaders_rotate_and_followers_shift_on_every_lap_without_racks():
    assigned = assign_replicas(brokers(*[None] * 5), 10, 3, Random(1), fixed_start=0)
    assert list(assigned.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_leaders_alternate_between_racks():
    assigned = assign_replicas(brokers("a", "a", "b", "b"), 4, 1, Random(1), fixed_start=0)
    assert [replicas[0] for replicas in assigned.values()] == [0, 2, 1, 3]


def test_six_brokers_in_three_racks():
    racks = {
        BrokerId(number): rack
        for number, rack in {
            0: "rack1",
            1: "rack3",
            2: "rack3",
            3: "rack2",
            4: "rack2",
            5: "rack1",
        }.items()
    }
    assigned = assign_replicas(racks, 7, 3, Random(1), fixed_start=0)
    assert list(assigned.values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_brokers_without_a_rack_are_a_rack_of_their_own():
    assigned = assign_replicas(brokers("a", None, "a", None), 4, 2, Random(1), fixed_start=0)
    assert list(assigned.values()) == [(1, 0), (0, 3), (3, 2), (2, 1)]


@pytest.mark.parametrize(
    ("partition_count", "replication_factor", "code"),
    [
        (0, 1, ErrorCode.invalid_partitions),
        (-2, 1, ErrorCode.invalid_partitions),
        (1, 0, ErrorCode.invalid_replication_factor),
        (1, -5, ErrorCode.invalid_replication_factor),
        (1, 4, ErrorCode.invalid_replication_factor),
    ],
)
def test_impossible_assignments_are_refused(partition_count, replication_factor, code):
    with pytest.raises(Refused) as refused:
        assign_replicas(brokers(None, None, None), partition_count, replication_factor, Random(1))
    assert refused.value.code is code


def test_a_cluster_without_brokers_refuses():
    with pytest.raises(Refused) as refused:
        assign_replicas({}, 1, 1, Random(1))
    assert refused.value.code is ErrorCode.invalid_replication_factor


RACKS = st.one_of(
    st.lists(st.none(), min_size=1, max_size=9),
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=9),
    st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=9),
)


@given(RACKS, st.integers(1, 40), st.integers(0, 25), st.data(), st.integers(0, 2**32))
def test_every_assignment_is_balanced_and_spread(racks, count, first_partition, data, seed):
    live = brokers(*racks)
    factor = data.draw(st.integers(1, len(live)))
    assigned = assign_replicas(live, count, factor, Random(seed), first_partition)

    assert list(assigned) == list(range(first_partition, first_partition + count))
    for replicas in assigned.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(live)
    leaders = Counter(dict.fromkeys(live, 0))
    leaders.update(replicas[0] for replicas in assigned.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1
    for replicas in assigned.values():
        used = {live[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(racks)))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 30), st.data(), st.integers(0, 2**32))
def test_equal_racks_get_equal_shares(rack_count, per_rack, laps, data, seed):
    live = {BrokerId(n): f"rack{n % rack_count}" for n in range(rack_count * per_rack)}
    factor = data.draw(st.integers(1, rack_count))
    assigned = assign_replicas(live, laps * len(live), factor, Random(seed))
    shares = Counter(live[broker] for replicas in assigned.values() for broker in replicas)
    assert len(set(shares.values())) == 1


@given(st.integers(1, 8), st.integers(1, 30), st.integers(0, 2**32))
def test_the_same_random_numbers_give_the_same_assignment(broker_count, count, seed):
    live = brokers(*[None] * broker_count)
    first = assign_replicas(live, count, broker_count, Random(seed))
    assert assign_replicas(live, count, broker_count, Random(seed)) == first
