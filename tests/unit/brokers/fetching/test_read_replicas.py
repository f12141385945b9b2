"""Which replica the consumers of a rack are told to read from (KIP-392)."""

import pytest

from cluster.brokers.fetching.read_replicas import NO_PREFERENCE, ReadReplicas
from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from tests.support.cluster_states import a_broker

LEADER, NEAR, NEAR_TOO, FAR = map(BrokerId, (1, 2, 3, 4))
RACKS = {LEADER: "a", NEAR: "b", NEAR_TOO: "b", FAR: "c"}


def a_leader(*fetched: tuple[BrokerId, int, int]) -> LeaderReplica:
    """The leader of ten records; followers have fetched up to an offset, each at another time."""
    ids = [LEADER, NEAR, NEAR_TOO, FAR]
    leader = LeaderReplica(
        LEADER,
        LeaderEpoch(0),
        ids,
        ids,
        PartitionEpoch(0),
        Offset(10),
        Offset(0),
        MonotonicMs(0),
    )
    for now_ms, (broker, offset, log_start) in enumerate(fetched):
        leader.on_follower_fetch(broker, Offset(offset), MonotonicMs(now_ms))
        leader.on_follower_log_start(broker, Offset(log_start))
    return leader


def choose(
    leader: LeaderReplica,
    offset: int = 5,
    rack: str = "b",
    lost: BrokerId | None = None,
    listener: str = "PLAINTEXT",
    local_id: BrokerId = LEADER,
) -> int:
    brokers = {number: a_broker(number, rack=rack) for number, rack in RACKS.items()}
    chosen = ReadReplicas(
        rack, listener, local_id, brokers, lambda broker, _: broker == lost, MonotonicMs(9)
    )
    return chosen.choose(leader, offset)


ALL = ((NEAR, 10, 0), (NEAR_TOO, 10, 0), (FAR, 10, 0))


def test_the_follower_in_the_rack_with_most_records_is_chosen() -> None:
    assert choose(a_leader((NEAR, 7, 0), (NEAR_TOO, 6, 0), (FAR, 10, 0))) == NEAR
    assert choose(a_leader((NEAR, 6, 0), (NEAR_TOO, 7, 0))) == NEAR_TOO


def test_the_follower_that_was_caught_up_last_is_chosen_among_equals() -> None:
    assert choose(a_leader(*ALL)) == NEAR_TOO
    assert choose(a_leader((NEAR_TOO, 10, 0), (NEAR, 10, 0))) == NEAR


@pytest.mark.parametrize("rack", ["a", "nowhere"])
def test_consumers_in_the_leaders_rack_or_in_none_read_from_the_leader(rack: str) -> None:
    assert choose(a_leader(*ALL), rack=rack) == NO_PREFERENCE


def test_followers_without_the_offset_are_not_chosen() -> None:
    assert choose(a_leader((NEAR, 4, 0), (NEAR_TOO, 5, 0))) == NEAR_TOO
    assert choose(a_leader((NEAR, 4, 0), (NEAR_TOO, 10, 6))) == NO_PREFERENCE
    assert choose(a_leader()) == NO_PREFERENCE


def test_dead_brokers_and_those_that_the_client_cannot_reach_are_not_chosen() -> None:
    assert choose(a_leader(*ALL), lost=NEAR_TOO) == NEAR
    assert choose(a_leader(*ALL), listener="INTERNAL") == NO_PREFERENCE
