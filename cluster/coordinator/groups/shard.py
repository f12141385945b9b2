"""The groups of one partition of `__consumer_offsets`: one object that takes every event. Pure.

Kafka: `GroupCoordinator` and `GroupMetadataManager`; the shape (records out, replay in, a reply
when they are committed) is that of `CoordinatorRuntime`.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from cluster.coordinator.groups.bridge.conversions import Conversions
from cluster.coordinator.groups.bridge.router import ClassicRequests
from cluster.coordinator.groups.classic.joining import Joining
from cluster.coordinator.groups.classic.membership import Membership
from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.classic.syncing import Syncing
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.loading import ConsumerLoading
from cluster.coordinator.groups.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerTimings,
)
from cluster.coordinator.groups.effects import Effects
from cluster.coordinator.groups.history.explanation import GroupExplanation
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.loading import Loading, LoadReport
from cluster.coordinator.groups.offsets.commits import OffsetCommits
from cluster.coordinator.groups.offsets.deleted_topics import DeletedTopics
from cluster.coordinator.groups.offsets.expiry import ExpiryCheck
from cluster.coordinator.groups.offsets.removals import Removals
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchedOffsets,
    FetchOffsets,
    GroupDescription,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListedGroup,
    SyncGroup,
    TransactionalCommit,
)
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import NoTopics, Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.coordinator.groups.views.classic_explanation import explain
from cluster.coordinator.groups.views.consumer_description import described
from cluster.coordinator.groups.views.consumer_explanation import explain_consumers
from cluster.coordinator.groups.views.progress import CLASSIC, GroupProgress, progress_of
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode

ALARMS_PER_TICK: Final = 100
"""A session that is over makes its group rebalance: some hundred microseconds for a large one."""


class GroupShard:
    """Owned by the thread that drives it; makes no call into the world and reads no clock.

    Lifecycle: `load` for every record of the partition, oldest first; `on_loaded`; then requests,
    `on_appended` and `on_tick`; `unload` when the broker stops leading the partition, after which
    the shard is dropped. Before `on_loaded` the driver answers requests itself
    (COORDINATOR_LOAD_IN_PROGRESS).

    `token` is whatever the driver knows a request by. Invariant: every token comes back in exactly
    one `Answer`: out of the call that got it, or of a later `on_appended`, `on_tick` or call for
    another member of the same group, or of `unload`.

    The group id's form is the handler's business: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
    OffsetDelete refuse an empty one with INVALID_GROUP_ID; the others take it.
    """

    def __init__(
        self,
        options: GroupOptions,
        new_uuid: Callable[[], str],
        topics: Topics | None = None,
        timings: Callable[[str], ConsumerTimings] = lambda _: ConsumerTimings(),
        counts: GroupCounts | None = None,
    ) -> None:
        """`new_uuid` gives the random part of a member id: the text of a UUID; `topics` are those
        that members of the newer consumer protocol are assigned; `timings` are those of a group of
        that protocol, by its id, as of now. `counts` is added to, and may be shared with other
        shards."""
        self._parts = ShardParts(options, new_uuid, counts or GroupCounts())
        self._rebalancing = Rebalancing(self._parts)
        self._topics = topics or NoTopics()
        conversions = Conversions(self._parts, self._rebalancing, self._topics)
        self._consumers = ConsumerGroups(self._parts, self._topics, timings, conversions)
        self._classic = ClassicRequests(
            self._parts,
            self._consumers,
            self._topics,
            Joining(self._parts, self._rebalancing),
            Syncing(self._parts, self._rebalancing),
            Membership(self._parts, self._rebalancing),
        )
        self._commits = OffsetCommits(self._parts, self._rebalancing)
        self._removals = Removals(self._parts, self._consumers)
        self._expiry = ExpiryCheck(self._parts, self._removals)
        self._deleted_topics = DeletedTopics(self._parts, self._removals)
        self._loading = Loading(
            self._parts,
            self._rebalancing,
            self._commits,
            ConsumerLoading(self._parts, self._consumers),
        )
        self._left_over: list[AnyGroup] = []
        """Groups that were unloaded, and are still in memory."""

    # ------------------------------------------------------------------ loading and unloading

    @property
    def load_report(self) -> LoadReport:
        """What came of the records so far."""
        return self._loading.report

    def load(self, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        """Take in one record of the partition; the newest of a key counts. Raises nothing.

        What cannot be read, or is of a kind that is not known here, is counted in `load_report`.
        Constant work, some three microseconds for an offset.
        `producer_id` is that of a transactional batch, else -1.
        """
        self._loading.load(key, value, producer_id)

    def load_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Take in the end of a transaction, where the partition has its control batch."""
        self._commits.end_transaction(producer_id, is_commit=is_commit)

    def on_loaded(self, now: Moment) -> Effects:
        """All records are in: members get their session timeouts from now, checks begin.

        A group with more members than `group.max.size` begins a rebalance.
        """
        self._loading.finish(now)
        self._expiry.start(now)
        return self._parts.outbox.take()

    def unload(self, now: Moment) -> Effects:
        """The broker does not coordinate these groups any more: answers every request that waits
        with NOT_COORDINATOR. Nothing may be called after it but `on_appended`, which does nothing,
        and `forgetting_steps`.
        """
        self._rebalancing.abandon_all(now)
        self._consumers.abandon_all(now)
        self._parts.outbox.abandon(now)
        self._left_over += self._parts.groups.values()
        self._left_over += self._parts.consumer_groups.values()
        self._parts.groups.clear()
        self._parts.consumer_groups.clear()
        self._parts.alarms.clear()
        return self._parts.outbox.take()

    def forgetting_steps(self) -> Iterator[None]:
        """After `unload`: free the memory of the groups in steps; a million offsets at once would
        take a tenth of a second."""
        while self._left_over:
            group = self._left_over.pop()
            yield from group.offsets.forget()
            group.let_go()
            yield

    # ------------------------------------------------------------------ the driver's events

    def on_appended(
        self,
        append_id: int,
        error: ErrorCode,
        now: Moment,
        *,
        is_in_log: bool | None = None,
    ) -> Effects:
        """The outcome of an append; once for each, in their order.

        With error none, what the records say holds from now on, and the requests that waited for it
        are answered. With an error they are answered with Kafka's translation of it (Kafka:
        `GroupMetadataManager.appendForGroup`: NOT_ENOUGH_REPLICAS to COORDINATOR_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER to NOT_COORDINATOR, MESSAGE_TOO_LARGE to INVALID_COMMIT_OFFSET_SIZE
        or UNKNOWN_SERVER_ERROR), an assignment is withdrawn and the group rebalances, an offset is
        as it was. `is_in_log` says with an error that the records are in the log all the same and
        will stay (NOT_ENOUGH_REPLICAS_AFTER_APPEND): then what they say holds, and only the
        replies have the error.
        """
        is_stored = error is ErrorCode.none if is_in_log is None else is_in_log
        self._parts.outbox.on_appended(append_id, error, now, is_stored=is_stored)
        return self._parts.outbox.take()

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        """The append takes longer than `offsets.commit.timeout.ms`: answers those who wait for it
        as for REQUEST_TIMED_OUT. Its outcome is still told by `on_appended` when it is known.
        """
        self._parts.outbox.on_late(append_id, now)
        return self._parts.outbox.take()

    def next_deadline_ms(self) -> MonotonicMs | None:
        """When to call `on_tick` next, at the latest; None for not at all. May be in the past."""
        times = (
            self._parts.alarms.next_ms(),
            self._expiry.next_ms(),
            self._deleted_topics.next_ms(),
        )
        return min((each for each in times if each is not None), default=None)

    def on_tick(self, now: Moment) -> Effects:
        """Carry out what is due: session and rebalance timeouts, a part of the check for expired
        offsets and of what deleted topics leave. Bounded work: what is left is due at once
        (`next_deadline_ms`).
        """
        self._parts.alarms.ring(now, ALARMS_PER_TICK)
        self._expiry.work(now)
        self._deleted_topics.work(now)
        return self._parts.outbox.take()

    def on_topics_deleted(self, topics: Collection[str], now: Moment) -> Effects:
        """Remove what groups have committed for these topics until now; `on_tick` does it."""
        self._deleted_topics.add(topics, now)
        return self._parts.outbox.take()

    # ------------------------------------------------------------------ requests of members

    def join(self, request: JoinGroup, token: object, now: Moment) -> Effects:
        """JoinGroup; answered with a JoinGroupReply, often only when the others have joined."""
        self._classic.join(request, token, now)
        return self._parts.outbox.take()

    def sync(self, request: SyncGroup, token: object, now: Moment) -> Effects:
        """SyncGroup; answered with a SyncGroupReply, when the leader's assignment is stored."""
        self._classic.sync(request, token, now)
        return self._parts.outbox.take()

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """Heartbeat, answered at once."""
        return self._classic.heartbeat(request, now)

    def leave(self, request: LeaveGroup, token: object, now: Moment) -> Effects:
        """LeaveGroup; answered with a LeaveGroupReply."""
        self._classic.leave(request, token, now)
        return self._parts.outbox.take()

    # ------------------------------------------------------------------ the newer consumer protocol

    def consumer_heartbeat(self, request: ConsumerHeartbeat, token: object, now: Moment) -> Effects:
        """ConsumerGroupHeartbeat (KIP-848); answered with a ConsumerHeartbeatReply, when what it
        changes is stored."""
        self._consumers.heartbeat(request, token, now)
        return self._parts.outbox.take()

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription | None:
        """ConsumerGroupDescribe; None (GROUP_ID_NOT_FOUND) if there is no group of this protocol
        and name. Kafka's message: `Group G not found.`, or of a classic group `Group G is not a
        consumer group.`
        """
        group = self._parts.consumer_groups.get(group_id)
        if group is None:
            return None
        return described(group, self._parts.options.consumer_assignors[0], self._topics)

    def on_topics_changed(self, topics: Collection[str], now: Moment) -> Effects:
        """Topics were made, deleted or enlarged: groups of the newer consumer protocol which
        subscribe to them, by name or by expression, compute a new assignment at their next
        heartbeat. Deleted ones are told by `on_topics_deleted` too.
        """
        del now
        self._consumers.on_topics_changed(topics)
        return self._parts.outbox.take()

    # ------------------------------------------------------------------ offsets

    def commit_offsets(self, request: CommitOffsets, token: object, now: Moment) -> Effects:
        """OffsetCommit; answered with a CommitReply, when the offsets are stored."""
        self._commits.commit(request, token, now)
        return self._parts.outbox.take()

    def commit_transactional(
        self, request: TransactionalCommit, token: object, now: Moment
    ) -> Effects:
        """TxnOffsetCommit; answered with a CommitReply, when the offsets are stored.

        The driver appends the records in a transactional batch of the producer. The offsets are
        seen when `end_transaction` says so.
        """
        self._commits.commit_transactional(request, token, now)
        return self._parts.outbox.take()

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of the producer's transaction is in the partition and committed."""
        self._commits.end_transaction(producer_id, is_commit=is_commit)

    def fetch_offsets(self, request: FetchOffsets) -> FetchedOffsets:
        """OffsetFetch, answered at once out of what is committed."""
        return self._commits.fetch(request)

    def delete_offsets(self, request: DeleteOffsets, token: object, now: Moment) -> Effects:
        """OffsetDelete; answered with a DeleteOffsetsReply, when it is stored."""
        self._removals.delete_offsets(request, token, now)
        return self._parts.outbox.take()

    # ------------------------------------------------------------------ whole groups

    def delete_groups(self, request: DeleteGroups, token: object, now: Moment) -> Effects:
        """DeleteGroups; answered with a DeleteGroupsReply, when it is stored."""
        self._removals.delete_groups(request, token, now)
        return self._parts.outbox.take()

    def describe(self, group_id: str) -> GroupDescription | None:
        """DescribeGroups; None if there is no such group of the classic protocol: the state `Dead`
        and no error up to version 5, GROUP_ID_NOT_FOUND from version 6 on.
        """
        group = self._parts.groups.get(group_id)
        return None if group is None else group.description()

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """ListGroups: those in one of the states and of one of the types, in any case of letters;
        empty for any.
        """
        wanted_states = {each.lower() for each in states}
        wanted_types = {each.lower() for each in types}
        listed = [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
            for group in self._parts.groups.values()
        ]
        listed += [
            ListedGroup(group.group_id, CONSUMER, group.state().value, CONSUMER)
            for group in self._parts.consumer_groups.values()
        ]
        return [
            each
            for each in listed
            if (not wanted_types or each.group_type in wanted_types)
            and (not wanted_states or each.state.lower() in wanted_states)
        ]

    def group_ids(self) -> list[str]:
        """The groups that there are now."""
        return self._parts.group_ids()

    def progress(self, group_id: str, now: Moment) -> GroupProgress | None:
        """How far a group has come; None if there is no such group."""
        group = self._parts.find(group_id)
        return None if group is None else progress_of(group, now)

    def rebalances(self, group_id: str, now: Moment) -> tuple[Rebalance, ...]:
        """The group's last rebalances, oldest first, the running one last; empty if unknown."""
        group = self._parts.find(group_id)
        return () if group is None else group.rebalances(now)

    def explain(self, group_id: str, now: Moment) -> GroupExplanation | None:
        """For `groups explain`: the group and its last rebalances; None if there is none."""
        group = self._parts.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return None if group is None else explain(group, CLASSIC, now)
        default = self._parts.options.consumer_assignors[0]
        timeout_ms = self._consumers.session_timeout_ms(group_id)
        return explain_consumers(group, default, timeout_ms, self._topics, now)

    def histories(self, now: Moment) -> dict[str, tuple[Rebalance, ...]]:
        """The last rebalances by group, for who keeps them when this shard is unloaded."""
        return {
            group_id: rebalances
            for group_id in self._parts.group_ids()
            if (rebalances := self.rebalances(group_id, now))
        }

    def state_times_ms(self, group_id: str, now: Moment) -> dict[str, int]:
        """How long the group has been in each state since it was loaded or made, by the state."""
        group = self._parts.find(group_id)
        return {} if group is None else group.state_times_ms(now)
