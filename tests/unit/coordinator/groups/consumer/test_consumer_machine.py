"""Members of the newer consumer protocol in any sequence of events.

Heartbeats are lost, repeated, and wait for appends that fail or are slow; members revoke slowly,
leave and die; topics change; the coordinator moves. Invariants: one member at most uses a
partition; epochs never decrease; a request is answered once; no acknowledged offset is lost. While
no append is pending, the log and the shard have the same state. In the end every request was
answered, and members that send heartbeats share all partitions that they subscribe to.
"""

import re
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.error_codes import ErrorCode
from tests.support.consumer_stage import Consumer, ConsumerStage
from tests.support.examples import examples
from tests.support.group_stage import GROUP

NONE = ErrorCode.none
OPTIONS = GroupOptions(
    consumer_max_size=4,
    offsets_retention_ms=10**12,
    retention_check_interval_ms=10**11,
    consumer_regex_refresh_interval_ms=50_000,
)
TOPICS = st.sampled_from([("orders",), ("bills",), ("orders", "bills"), ("orders", "more"), ()])
EXPRESSIONS = st.sampled_from([None, None, None, "", "b.*", "orders|more", "b("])
INSTANCES = st.sampled_from([None, None, "s-1", "s-2"])
ASSIGNORS = st.sampled_from([None, None, "range", "uniform"])
WAITS = st.sampled_from([0, 1, 1_000, 5_000, 20_000, 45_000, 60_000])
PICK = st.integers(0, 30)


class SlowConsumer(Consumer):
    """A client that revokes late, and whose replies may be lost."""

    told = None
    """The assignment that it received; None: it has it."""
    is_unsure = False
    """It missed a reply or received an error: its next heartbeat is a full one."""

    def ask(self, *, full=False, epoch=None):
        token = super().ask(full=full or self.is_unsure, epoch=epoch)
        self.is_unsure = True
        return token

    def hear(self, token):
        before = self.owned
        reply = super().hear(token)
        self.is_unsure = reply.error is not NONE
        if reply.error is NONE and reply.assignment is not None and before:
            self.told, self.owned = self.owned, before
        elif reply.error is not NONE and self.epoch == 0:
            self.told = None
        return reply

    def obey(self):
        if self.told is not None:
            self.owned, self.told = self.told, None


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.stage = ConsumerStage(OPTIONS).loaded()
        self.stage.holds_appends = True
        self.members: list[SlowConsumer] = []
        self.asked: dict[int, SlowConsumer] = {}
        """Heartbeats whose replies will be delivered, by token."""
        self.commits: dict[int, int] = {}
        """Committed offsets by token."""
        self.acknowledged = 0
        self.epoch = 0
        """The largest group epoch in the log."""
        self.next = 1

    def pick(self, number: int) -> SlowConsumer:
        return self.members[number % len(self.members)]

    def listen(self) -> None:
        for token, member in list(self.asked.items()):
            if token in self.stage.answers:
                del self.asked[token]
                before = member.epoch
                reply = member.hear(token)
                if reply.error is NONE and before > 0:
                    assert reply.member_epoch >= before
        for token, offset in list(self.commits.items()):
            if token in self.stage.answers:
                del self.commits[token]
                if self.stage.commit_errors(token) == [NONE]:
                    self.acknowledged = max(self.acknowledged, offset)

    def is_waiting(self, member: SlowConsumer) -> bool:
        return any(each is member for each in self.asked.values())

    # ------------------------------------------------------------------ members

    @precondition(lambda self: len(self.members) < 6)
    @rule(topics=TOPICS, regex=EXPRESSIONS, instance=INSTANCES, assignor=ASSIGNORS)
    def somebody_joins(self, topics, regex, instance, assignor):
        member = SlowConsumer(
            self.stage, f"m{self.next}", topics, regex, instance=instance, assignor=assignor
        )
        self.next += 1
        self.members.append(member)
        self.asked[member.ask()] = member

    @precondition(lambda self: self.members)
    @rule(number=PICK, full=st.booleans(), is_lost=st.sampled_from([False, False, False, True]))
    def a_heartbeat(self, number, full, is_lost):
        member = self.pick(number)
        if self.is_waiting(member):
            return
        token = member.ask(full=full)
        if not is_lost:
            self.asked[token] = member

    @precondition(lambda self: self.members)
    @rule()
    def everybody_sends_a_heartbeat(self):
        for member in self.members:
            if not self.is_waiting(member):
                self.asked[member.ask()] = member

    @precondition(lambda self: self.members)
    @rule(number=PICK)
    def a_client_does_what_it_was_told(self, number):
        self.pick(number).obey()

    @precondition(lambda self: self.members)
    @rule(number=PICK, topics=TOPICS, regex=EXPRESSIONS)
    def another_subscription(self, number, topics, regex):
        member = self.pick(number)
        member.topics, member.regex = topics, regex
        if not self.is_waiting(member):
            self.asked[member.ask(full=True)] = member

    @precondition(lambda self: self.members)
    @rule(number=PICK, how=st.sampled_from(["leaves", "dies", "for a while"]))
    def somebody_goes(self, number, how):
        member = self.members.pop(number % len(self.members))
        self.asked = {token: each for token, each in self.asked.items() if each is not member}
        if how == "leaves":
            member.ask(epoch=-1)
        elif how == "for a while" and member.instance is not None:
            member.ask(epoch=-2)
            self.members.append(
                SlowConsumer(self.stage, f"m{self.next}", member.topics, instance=member.instance)
            )
            self.next += 1

    @precondition(lambda self: self.members)
    @rule(number=PICK)
    def a_commit(self, number):
        member = self.pick(number)
        token = self.stage.commit({("orders", 0): self.next}, member.member_id, member.epoch)
        self.commits[token] = self.next
        self.next += 1

    @rule(topic=st.sampled_from(["orders", "bills"]))
    def an_administrator_commits(self, topic):
        token = self.stage.commit({(topic, 0): self.next})
        if topic == "orders":
            self.commits[token] = self.next
        self.next += 1

    @rule()
    def an_administrator_deletes_offsets(self):
        self.stage.delete_offsets(("bills", 0))
        if not self.members_of(self.stage):
            self.epoch = 0  # the group may be removed with them

    @rule()
    def the_group_is_deleted(self):
        if not self.members and not self.commits and not self.acknowledged:
            self.stage.delete_groups(GROUP)
            self.epoch = 0

    # ------------------------------------------------------------------ the world

    @rule(wait=WAITS)
    def time_passes(self, wait):
        self.stage.pass_time(wait)

    @rule(
        name=st.sampled_from(["orders", "bills", "more"]),
        count=st.sampled_from([None, 1, 3, 6]),
    )
    def a_topic_changes(self, name, count):
        self.stage.change_topics(**{name: count})

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
        outcome = stage.shard.on_appended(append.append_id, error, stage.now, is_in_log=is_in_log)
        stage.perform(outcome)

    @rule(survivors=st.integers(0, 5))
    def another_coordinator(self, survivors):
        """The log of the next coordinator has some of the pending appends."""
        stage = self.stage
        on_its_way, stage.in_flight = stage.in_flight, []
        stage.unload()
        assert stage.answers.keys() == stage.asked.keys()
        self.listen()
        for append in on_its_way[:survivors]:
            stage.log += append.records
        self.stage = stage.reloaded()
        self.stage.holds_appends = True
        self.asked.clear()
        self.commits.clear()
        for member in self.members:
            member.stage = self.stage

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def replies_are_heard(self):
        self.listen()

    @invariant()
    def a_partition_has_one_member(self):
        described = self.stage.described_consumers()
        if described is None:
            return
        assert len(described.members) <= OPTIONS.consumer_max_size
        assigned = [
            (each.topic_id, number)
            for member in described.members
            for each in member.assignment
            for number in each.partitions
        ]
        assert len(assigned) == len(set(assigned))
        known = {each.member_id for each in described.members}
        used = [
            (topic_id, number)
            for member in self.members
            if member.member_id in known and member.epoch > 0
            for topic_id, numbers in member.owned.items()
            for number in numbers
        ]
        assert len(used) == len(set(used))
        instances = [each.instance_id for each in described.members if each.instance_id]
        assert len(instances) == len(set(instances))

    @invariant()
    def epochs_never_fall(self):
        described = self.stage.described_consumers()
        if described is not None and not self.stage.in_flight:
            assert described.group_epoch >= self.epoch
            self.epoch = described.group_epoch
            assert described.assignment_epoch <= described.group_epoch
            for member in described.members:
                assert member.member_epoch <= described.assignment_epoch

    @invariant()
    def no_acknowledged_offset_is_lost(self):
        for stage in (self.stage, self.stage.reloaded()):
            assert stage.committed().get(("orders", 0), 0) >= self.acknowledged

    @invariant()
    def the_log_is_what_is_known(self):
        stage = self.stage
        if not stage.in_flight:
            successor = stage.reloaded()
            assert self.members_of(stage) == self.members_of(successor)
            was, now = (each.described_consumers() for each in (stage, successor))
            assert (was is None) == (now is None)
            if was is not None and now is not None:
                assert replace(was, members=()) == replace(now, members=())
            assert stage.committed() == successor.committed()

    def teardown(self):
        stage = self.stage
        for _ in range(40):
            stage.settle()
            self.listen()
            for member in self.members:
                member.obey()
                if not self.is_waiting(member):
                    self.asked[member.ask()] = member
            stage.settle()
            self.listen()
            stage.pass_time(4_000)
        stage.settle()
        assert stage.answers.keys() == stage.asked.keys()
        self.everybody_has_what_is_theirs()
        self.members.clear()
        for _ in range(3):
            stage.pass_time(60_000)
            stage.settle()
        assert not self.members_of(stage)

    def members_of(self, stage):
        described = stage.described_consumers()
        return {} if described is None else {each.member_id: each for each in described.members}

    def everybody_has_what_is_theirs(self):
        """All accepted members have their targets; others were too many, or had an invalid
        expression."""
        members = self.members_of(self.stage)
        if not members:
            return
        described = self.stage.described()
        assert described.state == "Stable"
        assert {each.member_epoch for each in members.values()} == {described.group_epoch}
        clients = {each.member_id: each for each in self.members}
        for member in members.values():
            assert member.assignment == member.target_assignment
            has = {each.topic: set(each.partitions) for each in member.assignment}
            assert clients[member.member_id].numbers == has
        for name, shape in self.stage.topics.shapes.items():
            is_read = any(
                name in each.subscribed_topic_names
                or re.fullmatch(each.subscribed_topic_regex or "", name)
                for each in members.values()
            )
            having = {
                number
                for each in members.values()
                for topic in each.assignment
                if topic.topic == name
                for number in topic.partitions
            }
            assert having == (set(range(shape.partition_count)) if is_read else set())


@pytest.mark.no_cover
def test_any_sequence_of_events_keeps_the_invariants():
    run_state_machine_as_test(ConsumerMachine, settings=examples(60, stateful_step_count=60))
