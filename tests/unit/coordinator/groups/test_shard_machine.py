"""Any sequence of requests, timeouts, failing appends and changes of the coordinator.

Invariants: a request is answered once; a generation has one leader and one protocol, and is one
larger than the one before; an instance id has one member; no acknowledged offset is lost. While no
append is pending, the log and the shard have the same state. In the end every request was answered,
and groups whose members are silent are empty.
"""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.coordinator.groups.requests import (
    JoinGroupReply,
    LeavingMember,
    SyncGroupReply,
    TopicsDeleted,
)
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.records import OffsetKey, read_key
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.error_codes import ErrorCode
from tests.support.examples import examples
from tests.support.group_stage import GROUP, GroupStage, protocols

NONE = ErrorCode.none
OPTIONS = GroupOptions(max_size=5, offsets_retention_ms=10**12, retention_check_interval_ms=10**11)
INSTANCES = st.sampled_from(["s-1", "s-2"])
OFFERS = st.sampled_from(
    [
        protocols("range"),
        protocols("range", topics=["bills"]),
        protocols("sticky", "range"),
        protocols("range", "sticky"),
        protocols("sticky"),
    ]
)
PARTITIONS = st.sampled_from([("orders", 0), ("orders", 1), ("bills", 0)])
WAITS = st.sampled_from([0, 1, 500, 3_000, 6_000, 10_000, 60_000])
SESSIONS = st.sampled_from([6_000, 10_000, 30_000])
REBALANCES = st.sampled_from([5_000, 20_000, 60_000])
PICK = st.integers(0, 30)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = GroupStage(OPTIONS).loaded()
        self.stage.holds_appends = True
        self.instance_of: dict[str, str | None] = {}
        """Every member id that was ever assigned."""
        self.generation_of: dict[str, int] = {}
        self.joining: dict[int, str | None] = {}
        """Instance ids of requests, by token."""
        self.commits: dict[int, tuple[tuple[str, int], int]] = {}
        """The partition and offset of unanswered commits, by token."""
        self.acknowledged: dict[tuple[str, int], int] = {}
        """The largest acknowledged offset of each partition that was not deleted since."""
        self.next_offset = 1
        self.seen: set[int] = set()
        self.leaders: dict[int, str] = {}
        self.chosen: dict[int, str] = {}
        self.is_faithful = True
        """All records of the group are in the log."""

    def a_member(self, pick: int) -> str:
        ids = list(self.instance_of)
        return ids[-1 - pick % len(ids)]

    def look(self) -> None:
        """Process the new answers."""
        for token, reply in self.stage.answers.items():
            if token in self.seen:
                continue
            self.seen.add(token)
            if isinstance(reply, JoinGroupReply):
                self.look_at_join(token, reply)
            elif isinstance(reply, SyncGroupReply):
                assert reply.error is not NONE or reply.protocol_type == "consumer"
            elif token in self.commits:
                (result,) = reply.partitions
                key, offset = self.commits.pop(token)
                if result.error is NONE:
                    self.acknowledged[key] = max(offset, self.acknowledged.get(key, 0))
        if self.stage.state() in ("Empty", "Dead"):
            # a group that is deleted now begins with generation 1 when it comes back
            self.leaders.clear()
            self.chosen.clear()

    def look_at_join(self, token: int, reply: JoinGroupReply) -> None:
        if reply.error is ErrorCode.member_id_required:
            self.instance_of[reply.member_id] = None
        if reply.error is not NONE:
            assert not reply.members
            return
        generation = reply.generation_id
        self.instance_of[reply.member_id] = self.joining.get(token)
        self.generation_of[reply.member_id] = generation
        assert self.chosen.setdefault(generation, str(reply.protocol_name)) == reply.protocol_name
        if reply.members and not reply.skip_assignment:
            assert reply.leader == reply.member_id
        if reply.member_id == reply.leader and not reply.skip_assignment:
            assert self.leaders.setdefault(generation, reply.leader) == reply.leader

    # ------------------------------------------------------------------ members

    @rule(
        offers=OFFERS,
        instance=st.none() | INSTANCES,
        knows_ids=st.booleans(),
        session_ms=SESSIONS,
        rebalance_ms=REBALANCES,
    )
    def join_new(self, offers, instance, knows_ids, session_ms, rebalance_ms):
        token = self.stage.join(
            offers=offers,
            instance=instance,
            knows_ids=knows_ids,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
        )
        self.note_join(token, instance)

    @precondition(lambda self: self.instance_of)
    @rule(pick=PICK, offers=OFFERS, session_ms=SESSIONS, is_honest=st.booleans())
    def join_known(self, pick, offers, session_ms, is_honest):
        member_id = self.a_member(pick)
        instance = self.instance_of[member_id] if is_honest else "s-1"
        token = self.stage.join(member_id, offers=offers, instance=instance, session_ms=session_ms)
        self.note_join(token, instance)

    def note_join(self, token: int, instance: str | None) -> None:
        self.joining[token] = instance

    @precondition(lambda self: self.instance_of)
    @rule()
    def everybody_joins(self):
        described = self.stage.described_classic()
        for member in described.members if described else ():
            token = self.stage.join(member.member_id, instance=member.group_instance_id)
            self.note_join(token, member.group_instance_id)

    @precondition(lambda self: self.generation_of)
    @rule(pick=PICK, change=st.sampled_from([0, 0, 0, 1, -1]))
    def sync(self, pick, change):
        members = list(self.generation_of)
        member_id = members[-1 - pick % len(members)]
        generation = self.generation_of[member_id] + change
        everything = {each: each.encode() for each in self.generation_of}
        self.stage.sync(member_id, generation, everything)

    @precondition(lambda self: self.generation_of)
    @rule()
    def everybody_syncs(self):
        described = self.stage.described_classic()
        for member in described.members if described else ():
            generation = self.generation_of.get(member.member_id, 0)
            everything = {each: each.encode() for each in self.generation_of}
            self.stage.sync(member.member_id, generation, everything)

    @precondition(lambda self: self.generation_of)
    @rule(pick=PICK)
    def heartbeat(self, pick):
        members = list(self.generation_of)
        member_id = members[-1 - pick % len(members)]
        self.stage.heartbeat(member_id, self.generation_of[member_id])

    @precondition(lambda self: self.instance_of)
    @rule(pick=PICK, by_instance=st.booleans())
    def leave(self, pick, by_instance):
        member_id = self.a_member(pick)
        instance = self.instance_of[member_id]
        is_static = by_instance and instance is not None
        self.stage.leave(LeavingMember("" if is_static else member_id, instance))

    # ------------------------------------------------------------------ offsets, groups

    @rule(key=PARTITIONS, pick=st.none() | PICK)
    def commit(self, key, pick):
        member_id, generation, instance = "", -1, None
        if pick is not None and self.generation_of:
            members = list(self.generation_of)
            member_id = members[-1 - pick % len(members)]
            generation = self.generation_of[member_id]
            instance = self.instance_of.get(member_id)
        self.next_offset += 1
        token = self.stage.commit({key: self.next_offset}, member_id, generation, instance=instance)
        self.commits[token] = (key, self.next_offset)

    @rule(key=PARTITIONS)
    def delete_offsets(self, key):
        self.forget(lambda each: each == key)
        self.stage.delete_offsets(key)

    @rule()
    def delete_group(self):
        self.forget(lambda each: True)
        self.stage.delete_groups(GROUP)

    @rule()
    def delete_topic(self):
        self.forget(lambda each: each[0] == "bills")
        self.stage.submit(TopicsDeleted(["bills"]))
        self.stage.pass_time(1)

    def forget(self, is_meant) -> None:
        """Expect nothing of offsets that were committed before a deletion was requested."""
        self.look()
        for key in list(self.acknowledged):
            if is_meant(key):
                del self.acknowledged[key]
        for token, (key, _) in list(self.commits.items()):
            if is_meant(key):
                del self.commits[token]
                # the content of its answer does not matter, but it must be answered
                assert token not in self.seen

    # ------------------------------------------------------------------ time, appends, failover

    @rule(wait_ms=WAITS)
    def pass_time(self, wait_ms):
        self.stage.pass_time(wait_ms)

    @rule()
    def appends_succeed(self):
        self.stage.settle()

    @precondition(lambda self: self.stage.in_flight)
    @rule(how=st.sampled_from(["fails", "fails but is in the log", "takes too long", "succeeds"]))
    def one_append(self, how):
        stage = self.stage
        append = stage.in_flight[0]
        if how == "takes too long":
            stage.perform(stage.shard.on_append_late(append.append_id, stage.now))
            return
        stage.in_flight.pop(0)
        is_in_log = how != "fails"
        error = NONE if how == "succeeds" else ErrorCode.not_enough_replicas_after_append
        if is_in_log:
            stage.log += append.records
        elif not is_about_offsets(append.records):
            self.is_faithful = False
        outcome = stage.shard.on_appended(append.append_id, error, stage.now, is_in_log=is_in_log)
        stage.perform(outcome)

    @rule(survivors=st.integers(0, 5))
    def another_coordinator(self, survivors):
        """The log of the next coordinator has some of the pending appends."""
        stage = self.stage
        on_its_way = stage.in_flight
        stage.in_flight = []
        stage.unload()
        assert stage.answers.keys() == stage.asked.keys()
        self.look()
        for append in on_its_way[:survivors]:
            stage.log += append.records
        self.stage = stage.reloaded()
        self.stage.uuids = stage.uuids  # no two members get the same id
        self.stage.holds_appends = True
        self.seen.clear()
        self.commits.clear()
        self.joining = {}
        self.leaders.clear()
        self.chosen.clear()
        self.is_faithful = True

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def answers_agree(self):
        self.look()

    @invariant()
    def members_are_consistent(self):
        described = self.stage.described_classic()
        if described is None:
            return
        instances = Counter(each.group_instance_id for each in described.members)
        del instances[None]
        assert all(number == 1 for number in instances.values())
        # during a rebalance it may have none for a moment, if an id was assigned
        if described.state != "PreparingRebalance":
            assert bool(described.members) == (described.state != "Empty")
            # before, members that have not rejoined do not count: they may be gone
            assert len(described.members) <= OPTIONS.max_size
        if described.members:
            assert self.stage.shard.next_deadline_ms() < self.stage.now_ms + 10 * 60_000

    @invariant()
    def generations_follow_each_other(self):
        for rebalance in self.stage.rebalances():
            if rebalance.generation_id is not None:
                assert rebalance.generation_id == rebalance.from_generation + 1

    @invariant()
    def no_acknowledged_offset_is_lost(self):
        committed = self.stage.committed()
        stored = self.stage.reloaded().committed()
        for key, offset in self.acknowledged.items():
            assert committed.get(key, 0) >= offset
            assert stored.get(key, 0) >= offset

    @invariant()
    def the_log_is_what_is_known(self):
        stage = self.stage
        if stage.in_flight:
            return
        successor = stage.reloaded()
        assert successor.committed() == stage.committed()
        if self.is_faithful and stage.state() == "Stable":
            assert successor.described_classic() == stage.described_classic()

    def teardown(self):
        stage = self.stage
        for _ in range(20):
            stage.settle()
            stage.pass_time(60_000)
        stage.settle()
        assert stage.state() in ("Empty", "Dead")
        assert stage.answers.keys() == stage.asked.keys()


def is_about_offsets(records: tuple[CoordinatorRecord, ...]) -> bool:
    return all(isinstance(read_key(each.key), OffsetKey) for each in records)


@pytest.mark.no_cover
def test_any_sequence_of_events_keeps_the_invariants():
    run_state_machine_as_test(GroupMachine, settings=examples(60, stateful_step_count=60))
