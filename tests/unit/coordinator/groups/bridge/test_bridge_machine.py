"""Members of both protocols join, leave and crash; appends are slow and fail; coordinators change.

Invariants: no two clients consume one partition; epochs and generations never decrease; a request
is answered once. While no append is pending, another coordinator that loads the log has the same
state. In the end the remaining members consume every partition once, and no acknowledged offset is
lost.
"""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.error_codes import ErrorCode
from tests.support.classic_client import ClassicClient
from tests.support.consumer_stage import Consumer, ConsumerStage, FakeTopics
from tests.support.examples import examples

NONE = ErrorCode.none
TOPICS = {"orders": 3, "bills": 2}
SUBSCRIPTIONS = st.sampled_from([("orders",), ("bills",), ("orders", "bills")])
PICK = st.integers(0, 30)
INSTANCES = st.sampled_from([None, None, None, "s-1", "s-2"])


@dataclass
class NewerClient:
    """A consumer of the newer protocol whose replies may be late."""

    consumer: Consumer
    waits_for: int | None = None
    losses: int = 0
    has_failed: bool = False

    def step(self) -> None:
        if self.waits_for is None:
            # a client says everything again after an error: the reply that it missed may have
            # given it something
            self.waits_for = self.consumer.ask(full=self.has_failed)
        if self.waits_for in self.consumer.stage.answers:
            token, self.waits_for = self.waits_for, None
            epoch = self.consumer.epoch
            self.has_failed = self.consumer.hear(token).error is not NONE
            self.losses += epoch > 0 and self.consumer.epoch == 0

    def leave(self) -> None:
        self.consumer.ask(epoch=-1)

    @property
    def numbers(self) -> dict[str, set[int]]:
        return self.consumer.numbers


Client = ClassicClient | NewerClient


class MigrationMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        options = GroupOptions(
            initial_rebalance_delay_ms=0,
            offsets_retention_ms=10**12,
            retention_check_interval_ms=10**11,
        )
        self.stage = ConsumerStage(options, FakeTopics(**TOPICS)).loaded()
        self.stage.holds_appends = True
        self.clients: list[Client] = []
        self.is_cooperative = False
        self.names = 0
        self.newest = 0
        """The largest epoch or generation so far."""
        self.commits: dict[int, tuple[tuple[str, int], int]] = {}
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.next_offset = 1
        self.static_topics: dict[str, tuple[str, ...]] = {}
        """Of each instance id that was last a classic client, which may have crashed."""

    @initialize(cooperative=st.booleans())
    def choose_protocol(self, cooperative):
        # mixed subscriptions in one classic group would share partitions with any broker
        self.is_cooperative = cooperative

    # ------------------------------------------------------------------ clients

    def client(self, pick: int) -> Client:
        return self.clients[pick % len(self.clients)]

    def replaced(self, instance: str | None) -> Client | None:
        """End the process with this instance id, if there is one: another takes its place."""
        for each in self.clients:
            theirs = each.instance if isinstance(each, ClassicClient) else each.consumer.instance
            if instance is not None and theirs == instance:
                if isinstance(each, NewerClient):
                    each.consumer.ask(epoch=-2)
                self.clients.remove(each)
                return each
        return None

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=SUBSCRIPTIONS, instance=INSTANCES)
    def a_classic_client_comes(self, topics, instance):
        self.replaced(instance)
        if instance is not None:
            # In a classic group nobody would assign others to it (KIP-345).
            topics = self.static_topics.setdefault(instance, topics)
        self.clients.append(
            ClassicClient(self.stage, topics, cooperative=self.is_cooperative, instance=instance)
        )
        self.clients[-1].step()

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=SUBSCRIPTIONS, instance=INSTANCES)
    def a_newer_client_comes(self, topics, instance):
        self.replaced(instance)
        self.static_topics.pop(instance or "", None)
        self.names += 1
        consumer = self.stage.stranger(f"new-{self.names}", *topics, instance=instance)
        self.clients.append(NewerClient(consumer))
        self.clients[-1].step()

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def a_client_goes_on(self, pick):
        self.client(pick).step()

    @precondition(lambda self: self.clients)
    @rule()
    def everybody_goes_on(self):
        for each in self.clients:
            each.step()

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def a_client_leaves(self, pick):
        gone = self.client(pick)
        self.clients.remove(gone)
        gone.leave()
        if isinstance(gone, ClassicClient):
            self.static_topics.pop(gone.instance or "", None)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def a_client_crashes(self, pick):
        self.clients.remove(self.client(pick))

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def a_client_commits(self, pick):
        client = self.client(pick)
        mine = [(topic, number) for topic, ns in client.numbers.items() for number in ns]
        if not mine:
            return
        if isinstance(client, ClassicClient):
            member_id, epoch = client.member_id, client.generation
        else:
            member_id, epoch = client.consumer.member_id, client.consumer.epoch
        key = min(mine)
        token = self.stage.commit({key: self.next_offset}, member_id, epoch)
        self.commits[token] = (key, self.next_offset)
        self.next_offset += 1

    # ------------------------------------------------------------------ the coordinator

    @rule()
    def appends_succeed(self):
        self.settle_and_say_so()

    @rule(is_in_log=st.booleans())
    def appends_fail(self, is_in_log):
        error = ErrorCode.not_enough_replicas
        if is_in_log:
            error = ErrorCode.not_enough_replicas_after_append
        self.stage.settle(error, is_in_log=is_in_log)
        self.look()

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds):
        """Live clients send heartbeats meanwhile."""
        for _ in range(seconds):
            self.settle_and_say_so()
            self.stage.pass_time(1_000)
            for each in self.clients:
                each.step()

    @precondition(lambda self: self.is_idle())
    @rule(order=st.randoms(use_true_random=False))
    def another_coordinator_takes_over(self, order):
        """The next coordinator loads the compacted log, whose records may come in any order."""
        shown = self.shown(self.stage)
        newest = list(dict(self.stage.log).items())
        order.shuffle(newest)
        self.stage.log[:] = [CoordinatorRecord(*each) for each in newest]
        successor = self.stage.reloaded()
        successor.holds_appends = True
        if "classic" not in shown or "Stable" in shown:
            assert self.shown(successor) == shown
        assert successor.committed() == self.stage.committed()
        answered = set(self.stage.answers)
        self.stage.unload()
        for token in set(self.stage.answers) - answered:
            assert self.stage.answers[token].error is ErrorCode.not_coordinator
        successor.answers, successor.asked = self.stage.answers, self.stage.asked
        successor.continue_tokens(self.stage)
        self.stage = successor
        for each in self.clients:
            if isinstance(each, ClassicClient):
                each.stage = successor
            else:
                each.consumer.stage = successor

    def settle_and_say_so(self) -> None:
        self.stage.settle()
        self.look()

    def is_idle(self) -> bool:
        return not self.stage.in_flight

    def look(self) -> None:
        for token in [token for token in self.commits if token in self.stage.answers]:
            key, offset = self.commits.pop(token)
            if self.stage.commit_errors(token) == [NONE]:
                self.acknowledged[key] = offset

    def shown(self, stage: ConsumerStage) -> str:
        listed = stage.listed()
        described = stage.described_consumers()
        if described is None:
            classic = stage.described_classic()
            return f"{listed} {classic and sorted(classic.members)}"
        members = sorted(described.members, key=lambda each: each.member_id)
        return f"{listed} {described.group_epoch} {described.assignment_epoch} {members}"

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def no_two_read_one_partition(self):
        readers = Counter(
            (topic, number)
            for each in self.clients
            for topic, numbers in each.numbers.items()
            for number in numbers
        )
        assert set(readers.values()) <= {1}, readers

    @invariant()
    def epochs_never_fall(self):
        described = self.stage.described_consumers()
        is_known = described is not None and described.members and self.is_idle()
        if described is not None and is_known and described.group_epoch < self.newest:
            # only if all members had left, and it started again with the first epoch
            for rebalance in self.stage.rebalances():
                assert (rebalance.generation_id or 0) <= described.group_epoch
            self.newest = 0
        if self.stage.state() in ("Empty", "Dead") and (described is None or not described.members):
            self.newest = 0  # a group that starts again has the first epoch
            return
        for each in self.clients:
            newest = each.generation if isinstance(each, ClassicClient) else each.consumer.epoch
            self.newest = max(self.newest, newest)

    def teardown(self):
        for _ in range(70):  # longer than any timeout
            self.settle_and_say_so()
            self.stage.pass_time(2_000)
            for each in self.clients:
                each.step()
                self.settle_and_say_so()
        for each in self.clients:
            each.losses = 0
        for _ in range(20):
            for each in self.clients:
                each.step()
                self.settle_and_say_so()
        self.settle_and_say_so()
        self.no_two_read_one_partition()
        assert not any(each.losses for each in self.clients)
        wanted = {
            (topic, number)
            for each in self.clients
            for topic in (each.topics if isinstance(each, ClassicClient) else each.consumer.topics)
            for number in range(TOPICS[topic])
        }
        read = {
            (topic, number)
            for each in self.clients
            for topic, numbers in each.numbers.items()
            for number in numbers
        }
        assert read == wanted
        if self.clients:
            kind = "classic"
            if any(isinstance(each, NewerClient) for each in self.clients):
                kind = "consumer"
            (listed,) = self.stage.listed()
            assert (listed.group_type, listed.state) == (kind, "Stable")
        committed = self.stage.committed()
        # more if an append failed for its caller but is in the log
        assert all(committed[key] >= offset for key, offset in self.acknowledged.items())
        assert self.stage.asked.keys() == self.stage.answers.keys()


@pytest.mark.no_cover
def test_any_sequence_of_events_keeps_the_invariants_with_both_protocols():
    run_state_machine_as_test(MigrationMachine, settings=examples(60, stateful_step_count=40))
