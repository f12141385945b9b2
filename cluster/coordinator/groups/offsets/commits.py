"""OffsetCommit, TxnOffsetCommit and OffsetFetch. Pure.

Kafka: `OffsetMetadataManager`, `ClassicGroup.validateOffsetCommit`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.consumer.offset_checks import (
    check_commit,
    check_fetch,
    check_transactional_commit,
)
from cluster.coordinator.groups.requests import (
    NO_MEMBER_ID,
    NO_TIMESTAMP,
    CommitOffsets,
    CommitReply,
    FetchedOffset,
    FetchedOffsets,
    FetchOffsets,
    OffsetToCommit,
    PartitionError,
    TransactionalCommit,
)
from cluster.coordinator.groups.shared.append_errors import offset_error
from cluster.coordinator.groups.shared.records import (
    CommittedOffset,
    offset_key,
    offset_value,
)
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.coordinator.shards.java_text import java_length
from cluster.coordinator.shards.record_text import is_storable
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

Entry = tuple[str, int, CommittedOffset]


class OffsetCommits:
    """Processes commits and fetches of offsets."""

    def __init__(self, parts: ShardParts, rebalancing: Rebalancing) -> None:
        self._parts = parts
        self._rebalancing = rebalancing
        self._in_transaction: dict[int, set[str]] = {}
        """The groups for which an open transaction of a producer has committed."""

    # ------------------------------------------------------------------ commits

    def commit(self, request: CommitOffsets, token: object, now: Moment) -> None:
        """Check and store offsets; answered when they are stored."""
        group = self._parts.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                self._refuse(request.offsets, token, ErrorCode.illegal_generation)
                return
            # a client that commits offsets without group membership
            group = self._parts.group_or_new(request.group_id, now)
        error = self._check(group, request, now)
        if error is not ErrorCode.none:
            self._refuse(request.offsets, token, error)
            return
        expire_ms = (
            NO_TIMESTAMP if request.retention_ms == -1 else now.wall_ms + request.retention_ms
        )
        self._store(group, request.offsets, token, now, expire_ms)

    def _check(self, group: AnyGroup, request: CommitOffsets, now: Moment) -> ErrorCode:
        """Check whether the client may commit. A commit of a classic member restarts its
        session."""
        if isinstance(group, ConsumerGroup):
            return check_commit(group, request)
        error = _check(group, request, is_transactional=False)
        if error is ErrorCode.none and group.state is not GroupState.EMPTY:
            error = group.rules.commit
        member = group.members.get(request.member_id)
        if error is ErrorCode.none and member is not None:
            self._rebalancing.restart_session(member, now)
        return error

    def commit_transactional(
        self, request: TransactionalCommit, token: object, now: Moment
    ) -> None:
        """Store offsets as part of a transaction; answered when they are stored."""
        group = self._parts.find(request.group_id)
        if group is None:
            group = self._parts.group_or_new(request.group_id, now)
        if isinstance(group, ConsumerGroup):
            error = check_transactional_commit(group, request)
        else:
            error = _check(group, request, is_transactional=True)
        if error is not ErrorCode.none:
            self._refuse(request.offsets, token, error)
            self._parts.remove_if_disposable(group, now)
            return
        self._store(group, request.offsets, token, now, NO_TIMESTAMP, request)

    def _refuse(self, offsets: Iterable[OffsetToCommit], token: object, error: ErrorCode) -> None:
        partitions = tuple(PartitionError(each.topic, each.partition, error) for each in offsets)
        self._parts.outbox.answer(token, CommitReply(partitions))

    def _store(
        self,
        group: AnyGroup,
        offsets: tuple[OffsetToCommit, ...],
        token: object,
        now: Moment,
        expire_ms: int,
        transaction: TransactionalCommit | None = None,
    ) -> None:
        max_length = self._parts.options.metadata_max_bytes
        results: list[PartitionError] = []
        entries: list[Entry] = []
        for each in offsets:
            is_good = java_length(each.metadata) <= max_length and is_storable(each.metadata)
            error = ErrorCode.none if is_good else ErrorCode.offset_metadata_too_large
            results.append(PartitionError(each.topic, each.partition, error))
            if is_good:
                committed = CommittedOffset(
                    each.offset, each.leader_epoch, each.metadata, now.wall_ms, expire_ms
                )
                entries.append((each.topic, each.partition, committed))
        if not entries:
            self._parts.outbox.answer(token, CommitReply(tuple(results)))
            self._parts.remove_if_disposable(group, now)
            return
        records = [
            CoordinatorRecord(offset_key(group.group_id, topic, partition), offset_value(committed))
            for topic, partition, committed in entries
        ]
        for topic, partition, _ in entries:
            group.offsets.begin((topic, partition))
        stored = _CommitStored(self._parts, group, entries, results, token)
        if transaction is None:
            self._parts.outbox.append(records, stored)
            return
        self._parts.outbox.append(
            records,
            _TransactionalStored(stored, self, transaction.producer_id),
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
        )

    # ------------------------------------------------------------------ transactions

    def note_transactional(self, producer_id: int, group: AnyGroup, entry: Entry) -> None:
        """Apply a commit that is in the log as part of a transaction."""
        group.offsets.set_transactional(producer_id, *entry)
        self._in_transaction.setdefault(producer_id, set()).add(group.group_id)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """End the producer's transaction, whose marker is in the log."""
        for group_id in self._in_transaction.pop(producer_id, ()):
            group = self._parts.find(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_commit=is_commit)

    # ------------------------------------------------------------------ fetches

    def fetch(self, request: FetchOffsets, _now: Moment) -> FetchedOffsets:
        """The committed offsets; none for an unknown group."""
        group = self._parts.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            error = check_fetch(group, request)
            if error is not ErrorCode.none:
                return FetchedOffsets(error)
        if request.topics is not None:
            keys = [(each.topic, number) for each in request.topics for number in each.partitions]
        elif group is None:
            keys = []
        else:
            keys = [(topic, partition) for topic, partition, _ in group.offsets]
        return FetchedOffsets(
            ErrorCode.none,
            tuple(_fetched(group, key, require_stable=request.require_stable) for key in keys),
        )


def _fetched(
    group: AnyGroup | None, key: tuple[str, int], *, require_stable: bool
) -> FetchedOffset:
    topic, partition = key
    if group is None:
        return FetchedOffset(topic, partition)
    if require_stable and group.offsets.is_changing(key):
        return FetchedOffset(topic, partition, error=ErrorCode.unstable_offset_commit)
    committed = group.offsets.get(topic, partition)
    if committed is None:
        return FetchedOffset(topic, partition)
    return FetchedOffset(
        topic, partition, committed.offset, committed.leader_epoch, committed.metadata
    )


def _check(
    group: ClassicGroup, request: CommitOffsets | TransactionalCommit, *, is_transactional: bool
) -> ErrorCode:
    """Allow a member of the current generation. A client without a group, such as an administrator
    or a consumer with manually assigned partitions, may commit while the group has no members."""
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.none
    is_anonymous = (
        request.generation_id < 0
        and request.member_id == NO_MEMBER_ID
        and request.group_instance_id is None
    )
    if not is_anonymous:
        return group.check_generation(
            request.member_id, request.group_instance_id, request.generation_id
        )
    return ErrorCode.none if is_transactional else ErrorCode.unknown_member_id


@dataclass(slots=True)
class _CommitStored:
    """The append of a commit. The offsets are visible once it is stored."""

    parts: ShardParts
    group: AnyGroup
    entries: list[Entry]
    results: list[PartitionError]
    token: object

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        self.end()
        if is_stored:
            self.parts.counts.offset_commits += len(self.entries)
            for entry in self.entries:
                self.group.offsets.set(*entry)
        else:
            self.parts.remove_if_disposable(self.group, now)

    def end(self) -> None:
        """The append is complete."""
        for topic, partition, _ in self.entries:
            self.group.offsets.end((topic, partition))

    def answer(self, error: ErrorCode, now: Moment) -> None:
        del now
        if error is not ErrorCode.none:
            error = offset_error(error)
            self.results = [
                each._replace(error=error) if each.error is ErrorCode.none else each
                for each in self.results
            ]
        self.parts.outbox.answer(self.token, CommitReply(tuple(self.results)))


@dataclass(slots=True)
class _TransactionalStored:
    """The append of a transactional commit. The offsets are visible when the transaction ends."""

    stored: _CommitStored
    commits: OffsetCommits
    producer_id: int

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        stored = self.stored
        stored.end()
        if is_stored:
            stored.parts.counts.offset_commits += len(stored.entries)
            for entry in stored.entries:
                self.commits.note_transactional(self.producer_id, stored.group, entry)
        else:
            stored.parts.remove_if_disposable(stored.group, now)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        self.stored.answer(error, now)
