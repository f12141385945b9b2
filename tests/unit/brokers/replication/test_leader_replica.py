"""What a leader makes of its followers' fetches: high watermark, in-sync set, proposals."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.brokers.replication.leader_replica import IsrProposal, LeaderReplica
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import PartitionState
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from tests.support.examples import examples

ONE, TWO, THREE, FOUR = map(BrokerId, (1, 2, 3, 4))
LAG_MS = 1_000
BEGIN = MonotonicMs(0)


def a_leader(
    isr: tuple[int, ...] = (1, 2, 3),
    end: int = 0,
    high_watermark: int = 0,
    now_ms: MonotonicMs = BEGIN,
) -> LeaderReplica:
    """Broker 1 leads for 1, 2 and 3 in leader epoch 4 and partition epoch 7."""
    return LeaderReplica(
        ONE,
        LeaderEpoch(4),
        (ONE, TWO, THREE),
        map(BrokerId, isr),
        PartitionEpoch(7),
        Offset(end),
        Offset(high_watermark),
        now_ms,
    )


def fetch(
    leader: LeaderReplica, follower: int, offset: int, now_ms: MonotonicMs = BEGIN
) -> IsrProposal | None:
    return leader.on_follower_fetch(BrokerId(follower), Offset(offset), now_ms)[1]


def append(leader: LeaderReplica, end: int, now_ms: MonotonicMs = BEGIN) -> bool:
    return leader.on_appended(Offset(end), now_ms)


def committed(leader: LeaderReplica, *isr: int, epoch: int) -> bool:
    return leader.on_isr_committed(map(BrokerId, isr), PartitionEpoch(epoch))


def reassigned(
    leader: LeaderReplica,
    *replicas: int,
    isr: tuple[int, ...],
    epoch: int,
    now_ms: int = 0,
    adding: tuple[int, ...] = (),
) -> bool:
    """The controller has written other replicas in the same leader epoch."""
    state = PartitionState(
        tuple(map(BrokerId, replicas)),
        tuple(map(BrokerId, isr)),
        ONE,
        leader.leader_epoch,
        PartitionEpoch(epoch),
        adding=tuple(map(BrokerId, adding)),
    )
    return leader.on_state_committed(state, MonotonicMs(now_ms))


def tick(leader: LeaderReplica, now_ms: MonotonicMs) -> IsrProposal | None:
    return leader.on_tick(now_ms, LAG_MS)


# High watermark


def test_high_watermark_waits_for_every_member_of_the_isr():
    leader = a_leader()
    assert append(leader, 10) is False
    fetch(leader, 2, 10)
    assert leader.high_watermark == 0  # nothing is known of broker 3
    moved, _ = leader.on_follower_fetch(THREE, Offset(4), MonotonicMs(0))
    assert moved
    assert leader.high_watermark == 4
    fetch(leader, 3, 10)
    assert leader.high_watermark == 10


def test_alone_in_the_isr_it_is_the_log_end():
    leader = a_leader(isr=(1,), end=5)
    assert leader.high_watermark == 5
    assert append(leader, 6) is True
    assert leader.high_watermark == 6


def test_high_watermark_never_moves_back_when_a_follower_does():
    leader = a_leader()
    append(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    fetch(leader, 3, 2)
    assert leader.high_watermark == 10
    append(leader, 20)
    fetch(leader, 2, 20)
    assert leader.high_watermark == 10


def test_a_new_leader_begins_with_what_it_knew_and_not_beyond_its_log():
    assert a_leader(end=5, high_watermark=3).high_watermark == 3
    assert a_leader(end=5, high_watermark=9).high_watermark == 5


def test_fetches_of_non_replicas_or_beyond_the_log_end_change_nothing():
    leader = a_leader(isr=(1, 2))
    append(leader, 10)
    assert leader.on_follower_fetch(FOUR, Offset(10), MonotonicMs(0)) == (False, None)
    assert leader.on_follower_fetch(TWO, Offset(11), MonotonicMs(0)) == (False, None)
    assert leader.high_watermark == 0


def test_high_watermark_stays_while_the_isr_is_smaller_than_min_insync_replicas():
    leader = a_leader((1,))
    leader.require(2)
    append(leader, 10)
    fetch(leader, 2, 10)
    assert leader.high_watermark == 0
    assert leader.has_all_in_sync(Offset(10))
    assert committed(leader, 1, 2, epoch=8) is True
    assert leader.high_watermark == 10


def test_high_watermark_stays_while_another_replica_is_eligible():
    leader = a_leader((1,))
    leader.on_isr_committed((ONE,), PartitionEpoch(8), eligible=(TWO, THREE))
    append(leader, 10)
    assert leader.high_watermark == 0
    proposal = tick(leader, BEGIN)  # min.insync.replicas is 1 now: the controller gives them up
    assert proposal is not None
    assert proposal.isr == (1,)
    assert leader.on_isr_committed((ONE,), PartitionEpoch(9)) is True
    assert leader.high_watermark == 10


def test_a_lower_requirement_is_taken_into_account():
    leader = a_leader((1,))
    leader.require(3)
    append(leader, 10)
    leader.require(1)
    assert leader.high_watermark == 0
    assert leader.recheck() is True
    assert leader.high_watermark == 10


def test_more_in_sync_replicas_than_there_are_replicas_are_not_required():
    leader = a_leader((1, 2, 3))
    leader.require(9)
    append(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.high_watermark == 10


def test_high_watermark_moves_when_the_isr_shrinks():
    leader = a_leader()
    append(leader, 10)
    fetch(leader, 2, 10)
    assert committed(leader, 1, 2, epoch=8) is True
    assert leader.high_watermark == 10


def test_while_an_expansion_is_asked_for_it_counts_the_newcomer_too():
    leader = a_leader(isr=(1, 2))
    append(leader, 10)
    fetch(leader, 2, 10)
    assert fetch(leader, 3, 10) is not None
    append(leader, 20)
    fetch(leader, 2, 20)
    assert leader.high_watermark == 10
    fetch(leader, 3, 15)
    assert leader.high_watermark == 15


def test_a_refused_newcomer_counts_no_more():
    leader = a_leader(isr=(1, 2))
    append(leader, 10)
    fetch(leader, 2, 10)
    proposal = fetch(leader, 3, 10)
    append(leader, 20)
    fetch(leader, 2, 20)
    assert leader.on_proposal_refused(proposal, MonotonicMs(0)) is True
    assert leader.high_watermark == 20


def test_a_newcomer_whose_proposal_was_not_answered_goes_on_counting():
    leader = a_leader(isr=(1, 2))
    append(leader, 10)
    fetch(leader, 2, 10)
    proposal = fetch(leader, 3, 10)
    leader.on_proposal_lost(proposal)
    append(leader, 20)
    fetch(leader, 2, 20)
    assert leader.high_watermark == 10  # broker 3 may be in sync for all we know
    again = tick(leader, MonotonicMs(1))
    assert again.isr == (1, 2)
    assert again.partition_epoch == 7
    assert committed(leader, 1, 2, epoch=8) is True
    assert leader.high_watermark == 20
    assert tick(leader, MonotonicMs(2)) is None


def test_a_repeated_update_does_not_end_a_proposal():
    leader = a_leader(isr=(1, 2))
    append(leader, 10)
    fetch(leader, 2, 10)
    assert fetch(leader, 3, 10) is not None
    # The controller tells everything again while the proposal is on its way.
    assert committed(leader, 1, 2, epoch=7) is False
    append(leader, 20)
    fetch(leader, 2, 20)
    assert leader.high_watermark == 10
    assert leader.pending_isr == (1, 2, 3)


# Expansion


def test_a_follower_that_has_caught_up_is_proposed_once():
    leader = a_leader(isr=(1,), end=10)
    assert fetch(leader, 2, 10) == IsrProposal((ONE, TWO), LeaderEpoch(4), PartitionEpoch(7))
    assert fetch(leader, 2, 10) is None
    assert fetch(leader, 3, 10) is None  # one proposal at a time
    committed(leader, 1, 2, epoch=8)
    assert fetch(leader, 3, 10).isr == (1, 2, 3)


def test_a_follower_below_the_high_watermark_is_not_proposed():
    leader = a_leader(isr=(1,))
    append(leader, 10)
    assert leader.high_watermark == 10
    assert fetch(leader, 2, 9) is None


def test_a_follower_below_the_start_of_the_epoch_is_not_proposed():
    leader = a_leader(isr=(1, 3), end=10, high_watermark=5)
    assert fetch(leader, 2, 7) is None
    assert fetch(leader, 2, 10) is not None


def test_after_a_refusal_there_is_a_pause():
    leader = a_leader(isr=(1,), end=10)
    proposal = fetch(leader, 2, 10, now_ms=MonotonicMs(100))
    leader.on_proposal_refused(proposal, MonotonicMs(100))
    assert fetch(leader, 2, 10, now_ms=MonotonicMs(599)) is None
    assert fetch(leader, 2, 10, now_ms=MonotonicMs(600)) is not None


def test_an_answer_to_an_earlier_proposal_is_nothing_to_a_later_one():
    leader = a_leader(isr=(1,), end=10)
    first = fetch(leader, 2, 10)
    committed(leader, 1, 2, epoch=8)  # told by an update, before the answer
    second = fetch(leader, 3, 10)
    leader.on_proposal_lost(first)
    assert leader.on_proposal_refused(first, MonotonicMs(0)) is False
    assert leader.pending_isr == second.isr


# Shrinking


def test_a_follower_that_trails_too_long_leaves():
    leader = a_leader()
    fetch(leader, 2, 0, now_ms=MonotonicMs(0))
    fetch(leader, 3, 0, now_ms=MonotonicMs(0))
    append(leader, 10, now_ms=MonotonicMs(100))
    fetch(leader, 2, 10, now_ms=MonotonicMs(100))
    assert tick(leader, MonotonicMs(100 + LAG_MS)) is None
    assert tick(leader, MonotonicMs(101 + LAG_MS)) == IsrProposal(
        (ONE, TWO), LeaderEpoch(4), PartitionEpoch(7)
    )
    assert tick(leader, MonotonicMs(102 + LAG_MS)) is None  # it is being asked for


def test_a_follower_that_never_fetched_gets_the_same_time():
    leader = a_leader(end=10, now_ms=MonotonicMs(50))
    fetch(leader, 2, 10, now_ms=MonotonicMs(60))
    assert tick(leader, MonotonicMs(50 + LAG_MS)) is None
    assert tick(leader, MonotonicMs(51 + LAG_MS)).isr == (1, 2)


def test_a_level_follower_stays_however_long_nothing_is_written():
    leader = a_leader()
    fetch(leader, 2, 0)
    fetch(leader, 3, 0)
    assert tick(leader, MonotonicMs(10**9)) is None
    append(leader, 1, now_ms=MonotonicMs(10**9))
    assert tick(leader, MonotonicMs(10**9 + LAG_MS)) is None


def test_a_follower_that_keeps_up_under_constant_load_stays():
    """It never has all, but soon has what there was at its fetch before."""
    leader = a_leader(isr=(1, 2))
    end = 0
    fetch(leader, 2, 0)
    for step in range(1, 100):
        now_ms = step * LAG_MS // 4
        append(leader, end + 10, MonotonicMs(now_ms))
        fetch(leader, 2, end, MonotonicMs(now_ms))
        end += 10
        assert tick(leader, MonotonicMs(now_ms)) is None


def test_a_follower_that_fetches_but_falls_behind_leaves():
    leader = a_leader(isr=(1, 2))
    fetch(leader, 2, 0)
    for step in range(1, 10):
        now_ms = step * LAG_MS // 4
        append(leader, step * 100, MonotonicMs(now_ms))
        fetch(leader, 2, step, MonotonicMs(now_ms))
    assert tick(leader, MonotonicMs(9 * LAG_MS // 4)).isr == (1,)


def test_the_leader_itself_always_stays():
    leader = a_leader(end=10)
    assert tick(leader, MonotonicMs(10**6)).isr == (1,)


# Replicas that change within a leader epoch


def test_followers_that_stay_keep_their_progress_when_the_replicas_change():
    leader = a_leader(end=10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 7)
    assert not reassigned(leader, 1, 2, 3, 4, isr=(1, 2, 3), epoch=8)
    assert leader.high_watermark == 7
    assert [leader.followers[b].log_end_offset for b in (TWO, THREE, FOUR)] == [10, 7, -1]
    assert leader.leader_epoch == 4


def test_added_replica_joins_the_isr_once_it_has_everything():
    leader = a_leader(end=10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    reassigned(leader, 1, 2, 3, 4, isr=(1, 2, 3), epoch=8)
    assert fetch(leader, 4, 9) is None
    proposal = fetch(leader, 4, 10)
    assert proposal is not None
    assert (proposal.isr, proposal.partition_epoch) == ((1, 2, 3, 4), 8)


def test_added_replica_is_not_lagging_before_it_could_fetch():
    leader = a_leader(isr=(1, 2, 3), end=10)
    reassigned(leader, 1, 2, 3, 4, isr=(1, 2, 3), epoch=8, now_ms=5_000)
    assert leader.followers[FOUR].last_caught_up_ms == 5_000


def test_high_watermark_moves_when_the_slowest_replica_is_removed():
    leader = a_leader(end=10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 4)
    assert leader.high_watermark == 4
    assert reassigned(leader, 1, 2, isr=(1, 2), epoch=8)
    assert leader.high_watermark == 10
    assert leader.outsiders == set()


def test_fetch_of_a_removed_replica_changes_nothing():
    leader = a_leader(end=10)
    reassigned(leader, 1, 2, isr=(1, 2), epoch=8)
    assert leader.on_follower_fetch(THREE, Offset(10), BEGIN) == (False, None)
    assert THREE not in leader.followers


def test_replicas_that_are_being_added_raise_neither_the_min_isr_nor_under_replication():
    leader = LeaderReplica(
        ONE, LeaderEpoch(4), (ONE,), (ONE,), PartitionEpoch(7), Offset(0), Offset(0), BEGIN, 2
    )
    reassigned(leader, 1, 2, isr=(1,), epoch=8, adding=(2,))
    assert append(leader, 6) is True, "the partition had one replica, and moves"
    assert not leader.is_under_replicated
    reassigned(leader, 1, 2, isr=(1,), epoch=9)
    assert leader.is_under_replicated


def test_min_isr_follows_the_number_of_replicas():
    leader = LeaderReplica(
        ONE, LeaderEpoch(4), (ONE,), (ONE,), PartitionEpoch(7), Offset(0), Offset(0), BEGIN, 2
    )
    assert append(leader, 5) is True
    reassigned(leader, 1, 2, isr=(1,), epoch=8)
    assert append(leader, 6) is False, "two in-sync replicas are required now"
    reassigned(leader, 1, isr=(1,), epoch=9)
    assert leader.high_watermark == 6


def test_replicas_of_a_known_partition_epoch_change_nothing():
    leader = a_leader(end=10)
    assert not reassigned(leader, 1, 2, isr=(1, 2), epoch=7)
    assert not reassigned(leader, 1, 2, isr=(1, 2), epoch=6)
    assert (leader.isr, set(leader.followers)) == ((1, 2, 3), {TWO, THREE})


def test_proposal_in_flight_is_over_when_the_replicas_change():
    leader = a_leader(isr=(1, 2), end=10)
    fetch(leader, 2, 10)
    proposal = fetch(leader, 3, 10)
    assert proposal is not None
    reassigned(leader, 1, 2, 3, 4, isr=(1, 2), epoch=8)
    assert leader.pending_isr is None
    assert not leader.on_proposal_refused(proposal, BEGIN)
    again = fetch(leader, 3, 10)
    assert again is not None
    assert again.partition_epoch == 8


class AnyFate(RuleBasedStateMachine):
    """Proposals that are lost, refused, delayed; a controller that is believed late."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = a_leader()
        self.now_ms = MonotonicMs(0)
        self.end = 0
        self.true_end = {TWO: 0, THREE: 0}
        self.true_isr: tuple[BrokerId, ...] = (ONE, TWO, THREE)
        self.true_epoch = 7
        self.on_the_way: list[IsrProposal] = []
        self.answers: list[tuple[IsrProposal, str, tuple[BrokerId, ...], int]] = []
        self.highest = 0

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self.on_the_way.append(proposal)

    @rule(count=st.integers(1, 5))
    def append(self, count):
        self.end += count
        append(self.leader, self.end, self.now_ms)

    @rule(follower=st.sampled_from([TWO, THREE]), share=st.floats(0, 1))
    def replicate(self, follower, share):
        behind = self.end - self.true_end[follower]
        self.true_end[follower] += round(behind * share)
        self._propose(fetch(self.leader, follower, self.true_end[follower], self.now_ms))

    @rule(duration_ms=st.sampled_from([10, 400, 1_100]))
    def pass_time(self, duration_ms):
        self.now_ms = MonotonicMs(self.now_ms + duration_ms)
        self._propose(tick(self.leader, self.now_ms))

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data(), answered=st.booleans())
    def controller_receives(self, data, answered):
        index = data.draw(st.integers(0, len(self.on_the_way) - 1))
        proposal = self.on_the_way.pop(index)
        if proposal.partition_epoch == self.true_epoch:
            self.true_isr, self.true_epoch = proposal.isr, self.true_epoch + 1
            fate = "committed"
        else:
            fate = "refused"
        fate = fate if answered else "lost"
        self.answers.append((proposal, fate, self.true_isr, self.true_epoch))

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data())
    def nobody_answers_in_time(self, data):
        proposal = data.draw(st.sampled_from(self.on_the_way))  # it may still arrive
        self.leader.on_proposal_lost(proposal)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def leader_receives(self, data):
        index = data.draw(st.integers(0, len(self.answers) - 1))
        proposal, fate, isr, epoch = self.answers.pop(index)
        if fate == "committed":
            self.leader.on_isr_committed(isr, PartitionEpoch(epoch))
        elif fate == "refused":
            self.leader.on_proposal_refused(proposal, self.now_ms)
        else:
            self.leader.on_proposal_lost(proposal)

    @rule()
    def update_arrives(self):
        self.leader.on_isr_committed(self.true_isr, PartitionEpoch(self.true_epoch))

    @invariant()
    def high_watermark_is_safe(self):
        high_watermark = self.leader.high_watermark
        assert self.highest <= high_watermark <= self.end
        for member in self.true_isr:
            if member != ONE:
                assert high_watermark <= max(self.highest, self.true_end[member])
        self.highest = high_watermark

    def teardown(self) -> None:
        """Once everything arrives, everybody is in sync and everything is committed."""
        self.update_arrives()
        for proposal in [*self.on_the_way, *(answer[0] for answer in self.answers)]:
            self.leader.on_proposal_lost(proposal)
        self.on_the_way.clear()
        for _ in range(4):
            self.now_ms = MonotonicMs(self.now_ms + 600)
            for follower in (TWO, THREE):
                self.true_end[follower] = self.end
                self._propose(fetch(self.leader, follower, self.end, self.now_ms))
            self._propose(tick(self.leader, self.now_ms))
            for proposal in self.on_the_way:
                if proposal.partition_epoch == self.true_epoch:
                    self.true_isr, self.true_epoch = proposal.isr, self.true_epoch + 1
                    self.leader.on_isr_committed(self.true_isr, PartitionEpoch(self.true_epoch))
                else:
                    self.leader.on_proposal_refused(proposal, self.now_ms)
            self.on_the_way.clear()
        assert self.leader.high_watermark == self.end
        assert set(self.leader.isr) == {1, 2, 3}


TestAnyFate = AnyFate.TestCase
TestAnyFate.settings = examples(60, stateful_step_count=30)


# Full log directories


def test_a_follower_with_a_full_directory_may_trail_for_a_second_and_does_not_join():
    leader = a_leader()
    append(leader, 10)
    fetch(leader, 2, 10)
    assert leader.on_tick(MonotonicMs(1_001), 30_000) is None
    proposal = leader.on_tick(MonotonicMs(1_001), 30_000, {THREE})
    assert proposal is not None
    assert proposal.isr == (ONE, TWO)
    committed(leader, 1, 2, epoch=8)
    assert fetch(leader, 3, 10, MonotonicMs(2_000)) is None
    leader.on_tick(MonotonicMs(2_000), 30_000)
    joined = fetch(leader, 3, 10, MonotonicMs(2_000))
    assert joined is not None
    assert joined.isr == (ONE, TWO, THREE)


def test_a_follower_with_a_full_directory_stays_in_the_isr_while_it_has_everything():
    leader = a_leader()
    append(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.on_tick(MonotonicMs(60_000), 30_000, {TWO, THREE}) is None
