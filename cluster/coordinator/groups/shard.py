"""The groups of one partition of `__consumer_offsets`: one object that takes every event. Pure.

Kafka: `GroupCoordinatorShard`, and `GroupCoordinator` and `GroupMetadataManager` of Kafka 3.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from cluster.coordinator.groups.bridge.conversions import Conversions
from cluster.coordinator.groups.bridge.router import ClassicRouter
from cluster.coordinator.groups.classic.joining import Joining
from cluster.coordinator.groups.classic.membership import Membership
from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.classic.syncing import Syncing
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.loading import ConsumerLoading
from cluster.coordinator.groups.consumer.requests import ConsumerHeartbeat, ConsumerTimings
from cluster.coordinator.groups.loading import Loading
from cluster.coordinator.groups.offsets.commits import OffsetCommits
from cluster.coordinator.groups.offsets.deleted_topics import DeletedTopics
from cluster.coordinator.groups.offsets.expiry import ExpiryCheck
from cluster.coordinator.groups.offsets.removals import Removals
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
    TopicsChanged,
    TopicsDeleted,
    TransactionalCommit,
)
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.topics import NoTopics, Topics
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.coordinator.groups.views.answers import GroupAnswers
from cluster.coordinator.shards.effects import Effects
from cluster.coordinator.shards.load_report import LoadReport
from cluster.coordinator.shards.requests import AnswerQuery, Query, ReplyT, Request, TakeRequest
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID

ALARMS_PER_TICK: Final = 100
"""The end of a session starts a rebalance, which takes some hundred microseconds in a large
group."""


class GroupShard:
    """Implements `Shard`.

    Handlers check the form of group ids: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete
    refuse an empty one with INVALID_GROUP_ID; the others accept it.
    """

    def __init__(
        self,
        options: GroupOptions,
        new_uuid: Callable[[], str],
        topics: Topics | None = None,
        timings: Callable[[str], ConsumerTimings] = lambda _: ConsumerTimings(),
        counts: GroupCounts | None = None,
    ) -> None:
        """`new_uuid` returns the random part of a member id, the text of a UUID.

        `topics` are those that members of the newer consumer protocol can be assigned. `timings`
        returns the current timings of such a group by its id. `counts` may be shared with other
        shards.
        """
        self._parts = ShardParts(options, new_uuid, counts or GroupCounts())
        self._rebalancing = Rebalancing(self._parts)
        topics = topics or NoTopics()
        conversions = Conversions(self._parts, self._rebalancing, topics)
        self._consumers = ConsumerGroups(self._parts, topics, timings, conversions)
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
        """Groups that were unloaded and are not freed yet."""
        classic = ClassicRouter(
            self._parts,
            self._consumers,
            topics,
            Joining(self._parts, self._rebalancing),
            Syncing(self._parts, self._rebalancing),
            Membership(self._parts, self._rebalancing),
        )
        self._requests: dict[type, TakeRequest] = dict(
            [
                JoinGroup.taken_by(classic.join),
                SyncGroup.taken_by(classic.sync),
                LeaveGroup.taken_by(classic.leave),
                ConsumerHeartbeat.taken_by(self._consumers.heartbeat),
                CommitOffsets.taken_by(self._commits.commit),
                TransactionalCommit.taken_by(self._commits.commit_transactional),
                DeleteOffsets.taken_by(self._removals.delete_offsets),
                DeleteGroups.taken_by(self._removals.delete_groups),
                TopicsDeleted.taken_by(self._note_deleted_topics),
                TopicsChanged.taken_by(self._note_changed_topics),
            ]
        )
        self._queries: dict[type, AnswerQuery] = (
            dict(
                [
                    Heartbeat.answered_by(classic.heartbeat),
                    FetchOffsets.answered_by(self._commits.fetch),
                ]
            )
            | GroupAnswers(self._parts, self._consumers, topics).table()
        )

    # ------------------------------------------------------------------ requests

    def submit(self, request: Request[Any], token: object, now: Moment) -> Effects:
        self._requests[type(request)](request, token, now)
        return self._parts.outbox.take()

    def ask(self, query: Query[ReplyT], now: Moment) -> ReplyT:
        reply: ReplyT = self._queries[type(query)](query, now)
        return reply

    def _note_deleted_topics(self, event: TopicsDeleted, token: object, now: Moment) -> None:
        self._deleted_topics.add(event.topics, now)
        self._parts.outbox.answer(token, None)

    def _note_changed_topics(self, event: TopicsChanged, token: object, _now: Moment) -> None:
        self._consumers.on_topics_changed(event.topics)
        self._parts.outbox.answer(token, None)

    # ------------------------------------------------------------------ loading and unloading

    @property
    def load_report(self) -> LoadReport:
        return self._loading.report

    def replay(
        self, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """An offset takes some two microseconds."""
        self._loading.replay(key, value, producer_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Offsets that were committed in the transaction become visible, or are dropped."""
        self._commits.end_transaction(producer_id, is_commit=is_commit)

    def finishing_steps(self) -> Iterator[None]:
        return iter(())

    def resuming_steps(self, now: Callable[[], Moment]) -> Iterator[Effects]:  # noqa: ARG002
        """`on_loaded` does it all."""
        return iter(())

    def on_loaded(self, now: Moment) -> Effects:
        """Session timeouts begin, and so does a rebalance of each group that has more members than
        `group.max.size`.
        """
        self._loading.finish(now)
        self._expiry.start(now)
        return self._parts.outbox.take()

    def unload(self, now: Moment) -> Effects:
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
        """Freeing a million offsets at once would take a tenth of a second."""
        while self._left_over:
            group = self._left_over.pop()
            yield from group.offsets.forget()
            group.release()
            yield

    # ------------------------------------------------------------------ appends and time

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_in_log: bool | None = None
    ) -> Effects:
        """Waiting requests get Kafka's translation of an error (`append_errors.py`).

        Unless the records are in the log nevertheless, offsets stay unchanged, an assignment is
        withdrawn and its group rebalances.
        """
        self._parts.outbox.on_appended(append_id, error, now, is_in_log=is_in_log)
        return self._parts.outbox.take()

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        self._parts.outbox.on_late(append_id, now)
        return self._parts.outbox.take()

    def next_deadline_ms(self) -> MonotonicMs | None:
        times = (
            self._parts.alarms.next_ms(),
            self._expiry.next_ms(),
            self._deleted_topics.next_ms(),
        )
        return min((each for each in times if each is not None), default=None)

    def on_tick(self, now: Moment) -> Effects:
        """Process timeouts, a part of the check for expired offsets, and a part of the removal of
        offsets of deleted topics.
        """
        self._parts.alarms.ring(now, ALARMS_PER_TICK)
        self._expiry.work(now)
        self._deleted_topics.work(now)
        return self._parts.outbox.take()
