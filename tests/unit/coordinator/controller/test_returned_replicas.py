"""The replicas that may lead after disks were lost, and what partitions without leader wait for."""

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.controller.elections import elect, elect_after_absence, with_isr
from cluster.coordinator.controller.leaderless import why_leaderless
from cluster.coordinator.controller.returned_replicas import without_lost_logs
from cluster.model.cluster import DoubtfulLog, PartitionState
from cluster.model.ids import NO_BROKER, NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.model.log_condition import LogCondition, LogEnd
from tests.support.cluster_states import a_partition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = uuid.UUID(int=7)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def a_state(
    isr: tuple[int, ...], eligible: tuple[int, ...] = (), leader: int = -1, **doubtful: int
) -> PartitionState:
    """A state of replicas 0, 1 and 2; `b1=7` is a doubtful replica of broker 1 whose log ends at
    7."""
    logs = tuple(
        DoubtfulLog(BrokerId(int(name[1:])), LeaderEpoch(3), Offset(end))
        for name, end in doubtful.items()
    )
    state = a_partition([0, 1, 2], isr, leader, leader_epoch=3, partition_epoch=8)
    return replace(state, eligible=ids(*eligible), doubtful=logs)


def missing(*partitions: TopicPartition) -> LogCondition:
    return LogCondition(missing=frozenset(partitions))


def doubtful(end: int) -> LogCondition:
    return LogCondition(doubtful={T0: LogEnd(LeaderEpoch(3), Offset(end))})


def judged(state: PartitionState, **conditions: LogCondition) -> PartitionState:
    returned = {BrokerId(int(name[1:])): one for name, one in conditions.items()}
    return without_lost_logs(state, T0, TOPIC_ID, returned)


@pytest.mark.parametrize(
    ("isr", "new_isr", "min_insync", "eligible"),
    [
        # a replica that leaves a large enough ISR may lack later commits
        ((0, 1, 2), (0, 1), 2, ()),
        ((0, 1, 2), (0,), 1, ()),
        # below min.insync.replicas nothing is committed
        ((0, 1, 2), (0,), 2, (1, 2)),
        ((0, 1), (0,), 2, (1,)),
        ((0, 1, 2), (0, 1), 3, (2,)),
        # of more replicas than there are
        ((0, 1, 2), (0, 1, 2), 5, ()),
    ],
)
def test_replicas_that_leave_a_small_isr_stay_eligible(isr, new_isr, min_insync, eligible):
    state = with_isr(a_state(isr, leader=0), ids(*new_isr), min_insync)
    assert state.isr == new_isr
    assert state.eligible == eligible


def test_eligible_replicas_are_cleared_when_the_isr_is_large_enough_again():
    state = with_isr(a_state((0,), (1, 2), leader=0), ids(0, 1), 2)
    assert state.eligible == ()


def test_an_eligible_replica_leads_when_no_in_sync_one_is_alive():
    state = elect(a_state((2,), (0, 1), leader=2), ids(1), unclean=False, min_insync=2)
    assert state is not None
    assert (state.leader, state.isr, state.eligible) == (1, (1,), (0, 2))


def test_a_lost_log_removes_the_right_to_lead():
    state = judged(a_state((2,), (0, 1)), b2=missing(T0, T1))
    assert (state.isr, state.eligible) == ((), (0, 1))
    state = judged(a_state((2,), (0, 1)), b0=missing(T0))
    assert (state.isr, state.eligible) == ((2,), (1,))


def test_a_lost_log_is_remembered_until_its_disk_is_back():
    state = judged(a_state((2,)), b2=missing(T0))
    assert elect(state, ids(0, 1, 2), unclean=False) is None
    assert elect(state, ids(0, 2), unclean=True).leader == 0
    assert judged(state, b2=missing(T0)) is state
    assert judged(state, b2=LogCondition(frozenset([T1]))) is state
    assert judged(state, b2=LogCondition()) is state  # a directory has failed
    for back in (doubtful(0), LogCondition(frozenset([T0]))):  # nothing was ever written to it
        elected = elect(judged(state, b2=back), ids(0, 1, 2), unclean=False)
        assert elected is not None
        assert elected.leader == 2
    state = judged(state, b2=doubtful(7))
    assert state.doubtful == (DoubtfulLog(BrokerId(2), LeaderEpoch(3), Offset(7)),)
    elected = elect(state, ids(0, 2), unclean=False)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.doubtful) == (2, (2,), ())


def test_a_log_of_an_earlier_topic_with_the_name_is_treated_as_empty():
    earlier = LogCondition(doubtful={T0: LogEnd(LeaderEpoch(9), Offset(50), uuid.UUID(int=8))})
    state = judged(a_state((0, 1)), b0=earlier, b1=doubtful(2))
    elected = elect(state, ids(0, 1), unclean=False)
    assert elected is not None
    assert elected.leader == 1
    gone = judged(a_state((0,)), b0=missing(T0))
    assert judged(gone, b0=earlier) is gone


def test_no_election_waits_for_a_lost_log_when_another_replica_may_lead():
    state = judged(a_state((0, 1, 2), leader=0), b0=missing(T0), b1=doubtful(4), b2=doubtful(3))
    elected = elect(state, ids(0, 1, 2), unclean=False)
    assert elected is not None
    assert elected.leader == 1


def test_a_lost_directory_loses_every_log_that_is_not_listed():
    lost = LogCondition(frozenset([T1]), is_directory_lost=True)
    assert judged(a_state((0, 1)), b1=lost).isr == (0,)
    assert judged(a_state((0, 1)), b1=replace(lost, held=frozenset([T0]))).isr == (0, 1)


def test_an_unlisted_log_of_intact_directories_is_treated_as_empty():
    state = judged(a_state((0, 1)), b1=LogCondition(frozenset([T1])))
    assert state.isr == (0,)
    assert state.doubtful == (DoubtfulLog(BrokerId(1), NO_EPOCH, Offset(0)),)


def test_lost_logs_of_other_partitions_change_nothing():
    state = a_state((0, 1), (2,))
    assert judged(state, b0=missing(T1), b1=LogCondition(), b2=missing(T1)) is state
    outside = a_state((0, 1), leader=0)
    assert judged(outside, b2=missing(T0)) is outside


def test_the_best_doubtful_replica_leads_when_all_are_back():
    state = a_state((0, 1, 2), leader=0)
    state = judged(state, b0=doubtful(5))
    assert elect(state, ids(0), unclean=False) is not None  # its leadership has ended
    state = judged(state, b1=doubtful(9))
    waiting = elect(state, ids(0, 1), unclean=False)
    assert waiting is not None
    assert waiting.leader == NO_BROKER
    state = judged(waiting, b2=doubtful(7))
    elected = elect(state, ids(0, 1, 2), unclean=False, min_insync=2)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible, elected.doubtful) == (1, (1,), (), ())
    assert elect(state, ids(0, 2), unclean=False) is None  # broker 1 has more


def test_a_higher_epoch_takes_precedence_over_a_longer_log():
    logs = (
        DoubtfulLog(BrokerId(0), LeaderEpoch(2), Offset(90)),
        DoubtfulLog(BrokerId(1), LeaderEpoch(3), Offset(10)),
    )
    state = elect(replace(a_state(()), doubtful=logs), ids(0, 1), unclean=False)
    assert state is not None
    assert state.leader == 1


def test_an_unclean_election_takes_the_best_live_doubtful_replica():
    state = elect(a_state((), b0=4, b1=6), ids(0, 2), unclean=True)
    assert state is not None
    assert (state.leader, state.isr) == (0, (0,))
    state = elect(a_state((), b1=6), ids(2), unclean=True)
    assert state is not None
    assert state.leader == 2


@pytest.mark.parametrize("end", [-1, 0])
def test_an_unclean_election_takes_others_before_a_replica_without_records(end):
    state = a_state((), b0=end)
    assert elect(state, ids(0, 1, 2), unclean=True).leader == 1
    assert elect(state, ids(0), unclean=True).leader == 0


def test_no_replica_leads_when_every_disk_is_lost():
    state = judged(a_state((0, 1), leader=0), b0=missing(T0), b1=missing(T0))
    without = elect_after_absence(state, (), ids(0, 1, 2), unclean=False)
    assert without is not None
    assert (without.leader, without.isr) == (NO_BROKER, ())
    assert "--election-type unclean --topic t --partition 0" in why_leaderless(T0, without)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (a_state((2,), (0, 1)), "it waits for broker 0 or 1 or 2, which has all committed records"),
        (a_state((), b0=4, b2=6), "leads when all are back (brokers [0, 2])"),
        (a_state((), b2=-1), "are gone (brokers [2]: disks wiped, not mounted,"),
        (a_state(()), "no replica is left that has its committed records"),
    ],
)
def test_a_partition_without_leader_says_what_it_waits_for(state, says):
    assert says in why_leaderless(T0, state)


CONDITIONS = st.sampled_from([LogCondition(), missing(T0), doubtful(5), doubtful(8)])


@given(
    isr=st.sets(st.integers(0, 2)),
    eligible=st.sets(st.integers(0, 2)),
    returned=st.dictionaries(st.integers(0, 2).map(BrokerId), CONDITIONS),
    live=st.sets(st.integers(0, 2).map(BrokerId)),
    min_insync=st.integers(1, 3),
)
def test_no_replica_leads_over_one_that_may_have_more(
    isr: set[int],
    eligible: set[int],
    returned: Mapping[BrokerId, LogCondition],
    live: set[BrokerId],
    min_insync: int,
) -> None:
    before = a_state(tuple(isr), tuple(eligible - isr))
    state = without_lost_logs(before, T0, TOPIC_ID, returned)
    lost = {b for b, one in returned.items() if one.lacks(T0) or one.doubtful_end(T0, TOPIC_ID)}
    assert not lost & {*state.isr, *state.eligible}
    elected = elect(state, live, unclean=False, min_insync=min_insync) or state
    if elected.leader == NO_BROKER:
        return
    assert elected.leader in live
    if elected.leader in lost:
        others = (isr | eligible) - lost
        assert not others
        ends = {log.broker: log.log_end_offset for log in state.doubtful if log.is_there}
        assert ends.keys() <= live
        assert ends[elected.leader] == max(ends.values())
