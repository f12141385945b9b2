"""Removes offsets (by request, of deleted topics, expired) and whole groups. Pure.

Kafka: `deleteOffsets`, `deleteGroups`, `cleanupExpiredOffsets`, KIP-496.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster.coordinator.groups.consumer.group_locks import ExclusiveAction
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.requests import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    PartitionError,
)
from cluster.coordinator.groups.shared.records import group_key, offset_key
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.group_offsets import Partition
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

TOMBSTONES_PER_APPEND: Final = 500
"""With the longest names some 300 KiB: an append is one batch and must fit into a message."""


class Removals:
    """Appends tombstones, and changes memory when they are stored."""

    def __init__(self, parts: ShardParts, consumers: ConsumerGroups) -> None:
        self._parts = parts
        self._consumers = consumers

    # ------------------------------------------------------------------ requests

    def delete_offsets(self, request: DeleteOffsets, token: object, now: Moment) -> None:
        """OffsetDelete: remove offsets of topics to which no member of a consumer group
        subscribes."""
        group = self._parts.find(request.group_id)
        error = ErrorCode.group_id_not_found
        if group is not None:
            error = ErrorCode.none if _may_delete_offsets(group) else ErrorCode.non_empty_group
        if group is None or error is not ErrorCode.none:
            self._parts.outbox.answer(token, DeleteOffsetsReply(error))
            return
        subscribed = frozenset(
            each.topic
            for each in request.topics
            if not _is_empty(group) and group.subscribes_to(each.topic)
        )
        keys = [(each.topic, number) for each in request.topics for number in each.partitions]
        present = set(group.offsets.partitions())
        known = [key for key in keys if key[0] not in subscribed and key in present]
        waiting = _OffsetsDeleted(
            self._parts,
            token,
            group_id=group.group_id,
            keys=tuple(keys),
            subscribed=subscribed,
        )
        waiting.expect()
        self._parts.counts.offset_deletions += len(set(known))
        self.remove_offsets(group, dict.fromkeys(known), now, waiting)
        waiting.answer(group.group_id, ErrorCode.none)

    def delete_groups(self, request: DeleteGroups, token: object, now: Moment) -> None:
        """DeleteGroups: remove groups without members, with their offsets."""
        waiting = _GroupsDeleted(self._parts, token, group_ids=request.group_ids)
        waiting.expect()
        for group_id in dict.fromkeys(request.group_ids):
            if group_id in self._parts.consumer_groups:
                waiting.expect()
                self._delete_consumer_group(group_id, now, waiting)
                continue
            group = self._parts.groups.get(group_id)
            error = ErrorCode.group_id_not_found if group is None else group.rules.delete_group
            if group is None or error is not ErrorCode.none:
                waiting.errors[group_id] = error
                continue
            self._parts.counts.offset_deletions += len(group.offsets)
            self._remove(group, group.offsets.partitions(), now, waiting, with_group=True)
        waiting.answer("", ErrorCode.none)

    # ------------------------------------------------------------------ without a request

    def remove_offsets(
        self,
        group: AnyGroup,
        keys: Collection[Partition],
        now: Moment,
        waiting: "_Waiting | None" = None,
    ) -> None:
        """Remove offsets, and the group if it has no members and no other offsets."""
        others = set(group.offsets.partitions()).difference(keys)
        is_last = _is_empty(group) and not others
        if isinstance(group, ClassicGroup):
            with_group = is_last and not group.pending_join
            self._remove(group, keys, now, waiting, with_group=with_group)
            return
        self._remove_some(group, keys, waiting)
        # the next check looks at a locked group again: offsets may be committed meanwhile
        if is_last and not self._consumers.locks.is_locked(group.group_id):
            self._delete_consumer_group(group.group_id, now, None)

    def _remove_some(
        self, group: AnyGroup, keys: Collection[Partition], waiting: "_Waiting | None"
    ) -> None:
        for piece in _pieces(keys):
            self._begin(group, piece, waiting)
            removal = _OffsetsGone(group, piece, waiting)
            self._parts.outbox.append(_tombstones(group, piece), removal)

    def _begin(
        self, group: AnyGroup, keys: Iterable[Partition], waiting: "_Waiting | None"
    ) -> None:
        for key in keys:
            group.offsets.begin(key)
        if waiting is not None:
            waiting.expect()

    def _remove(
        self,
        group: ClassicGroup,
        keys: Collection[Partition],
        now: Moment,
        waiting: "_Waiting | None",
        *,
        with_group: bool,
    ) -> None:
        if not with_group:
            self._remove_some(group, keys, waiting)
            return
        pieces = _pieces(keys) or [[]]
        for piece in pieces[:-1]:
            self._remove_some(group, piece, waiting)
        last = pieces[-1]
        self._begin(group, last, waiting)
        records = _tombstones(group, last)
        if group.generation_id > 0:  # a group that only commits has no record of its own
            records.append(CoordinatorRecord(group_key(group.group_id), None))
        removal = _GroupGone(group, last, waiting, self._parts, group.generation_id)
        if records:
            self._parts.outbox.append(records, removal)
        else:
            removal.settle(now, is_stored=True)
            removal.answer(ErrorCode.none, now)

    # ------------------------------------------------------------------ the newer protocol

    def _delete_consumer_group(
        self, group_id: str, now: Moment, waiting: "_Waiting | None"
    ) -> None:
        """Remove a group without members as soon as no append of it is pending."""

        def answer(error: ErrorCode) -> None:
            if waiting is not None:
                waiting.answer(group_id, error)

        def run(now: Moment) -> None:
            group = self._parts.consumer_groups.get(group_id)
            if group is None:
                answer(ErrorCode.group_id_not_found)
            elif group.members:
                answer(ErrorCode.non_empty_group)
            else:
                self._remove_consumer_group(group, now, waiting)
                answer(ErrorCode.none)

        def refuse(error: ErrorCode, now: Moment) -> None:
            del now
            answer(error)

        self._consumers.offer(group_id, ExclusiveAction(run, refuse), now)

    def _remove_consumer_group(
        self, group: ConsumerGroup, now: Moment, waiting: "_Waiting | None"
    ) -> None:
        self._remove_some(group, group.offsets.partitions(), waiting)
        journal = Journal(group)
        journal.remove_group()
        if waiting is not None:
            waiting.expect()
        del now
        self._consumers.locks.lock(group.group_id)
        removal = _ConsumerGroupGone(self._parts, self._consumers, journal, waiting)
        self._parts.outbox.append(journal.records, removal)


def _is_empty(group: AnyGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY


def _may_delete_offsets(group: AnyGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return True
    return group.state is GroupState.EMPTY or group.roster.protocol_type == CONSUMER


def _tombstones(group: AnyGroup, keys: Iterable[Partition]) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(offset_key(group.group_id, topic, partition), None)
        for topic, partition in keys
    ]


def _pieces(keys: Iterable[Partition]) -> list[list[Partition]]:
    everything = list(keys)
    return [
        everything[start : start + TOMBSTONES_PER_APPEND]
        for start in range(0, len(everything), TOMBSTONES_PER_APPEND)
    ]


@dataclass(slots=True)
class _OffsetsGone:
    """The append of tombstones of offsets."""

    group: AnyGroup
    keys: list[Partition]
    waiting: "_Waiting | None"

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        del now
        for key in self.keys:
            self.group.offsets.end(key)
            if is_stored:
                self.group.offsets.remove(*key)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        del now
        if self.waiting is not None:
            self.waiting.answer(self.group.group_id, coordinator_error(error))


@dataclass(slots=True)
class _GroupGone(_OffsetsGone):
    """The append of the last tombstones of a classic group."""

    parts: ShardParts
    generation_id: int
    """The group's generation when its removal was decided."""

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        _OffsetsGone.settle(self, now, is_stored=is_stored)
        group = self.group
        if (
            not is_stored
            or not isinstance(group, ClassicGroup)
            or group.state is not GroupState.EMPTY
            or group.generation_id != self.generation_id
        ):
            return
        if group.offsets.is_unused:
            self.parts.remove(group, now)
            log.info("Removed group %s.", group.group_id)
        else:
            group.clear()  # offsets were committed meanwhile; no generation is stored any more


@dataclass(slots=True)
class _ConsumerGroupGone:
    """The append of the tombstones of a group of the newer consumer protocol, which stays locked
    until it is complete."""

    parts: ShardParts
    consumers: ConsumerGroups
    journal: Journal
    waiting: "_Waiting | None"
    is_settled: bool = False

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        self.is_settled = True
        group = self.journal.group
        if is_stored:
            self.parts.forget_consumer_group(group, now)
            log.info("Removed group %s.", group.group_id)
        self.consumers.on_settled(self.journal, now, is_stored=is_stored)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        group_id = self.journal.group.group_id
        if self.waiting is not None:
            self.waiting.answer(group_id, coordinator_error(error))
        if not self.is_settled:
            self.consumers.on_late(group_id, coordinator_error(error), now)


@dataclass(slots=True)
class _Waiting(ABC):
    """A request that waits for appends: `expect` before each, `answer` after. The last one answers
    the request."""

    parts: ShardParts
    token: object
    errors: dict[str, ErrorCode] = field(default_factory=dict)
    """Errors by group."""
    expected: int = 0

    def expect(self) -> None:
        """One more outcome is pending."""
        self.expected += 1

    def answer(self, group_id: str, error: ErrorCode) -> None:
        """One outcome is known."""
        if error is not ErrorCode.none:
            self.errors[group_id] = error
        self.expected -= 1
        if not self.expected:
            self.parts.outbox.answer(self.token, self.reply())

    @abstractmethod
    def reply(self) -> object:
        """The reply to the request."""


@dataclass(slots=True)
class _GroupsDeleted(_Waiting):
    group_ids: tuple[str, ...] = ()

    def reply(self) -> DeleteGroupsReply:
        return DeleteGroupsReply(
            tuple(
                DeletedGroup(each, self.errors.get(each, ErrorCode.none)) for each in self.group_ids
            )
        )


@dataclass(slots=True)
class _OffsetsDeleted(_Waiting):
    group_id: str = ""
    keys: tuple[Partition, ...] = ()
    subscribed: frozenset[str] = frozenset()

    def reply(self) -> DeleteOffsetsReply:
        error = self.errors.get(self.group_id, ErrorCode.none)
        if error is not ErrorCode.none:
            return DeleteOffsetsReply(error)
        refused = ErrorCode.group_subscribed_to_topic
        return DeleteOffsetsReply(
            ErrorCode.none,
            tuple(
                PartitionError(*key, refused if key[0] in self.subscribed else ErrorCode.none)
                for key in self.keys
            ),
        )
