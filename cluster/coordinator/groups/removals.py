"""What is removed: offsets by request, of deleted topics, expired ones; whole groups. Pure.

Kafka: `deleteOffsets`, `deleteGroups`, `cleanupExpiredOffsets`, KIP-496.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster.coordinator.groups.append_errors import group_error
from cluster.coordinator.groups.classic_group import ClassicGroup
from cluster.coordinator.groups.effects import GroupRecord
from cluster.coordinator.groups.group_offsets import Partition
from cluster.coordinator.groups.moment import Moment
from cluster.coordinator.groups.parts import ShardParts
from cluster.coordinator.groups.records import group_key, offset_key
from cluster.coordinator.groups.requests import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    PartitionError,
)
from cluster.coordinator.groups.states import GroupState
from cluster.coordinator.groups.subscription import CONSUMER
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

TOMBSTONES_PER_APPEND: Final = 500
"""Some 300 KiB at most, of the longest names: an append is a batch, and fits into a message."""


class Removals:
    """Removes what is asked for; tombstones first, memory when they are stored."""

    def __init__(self, parts: ShardParts) -> None:
        self._parts = parts

    # ------------------------------------------------------------------ requests

    def delete_offsets(self, request: DeleteOffsets, token: object, now: Moment) -> None:
        """OffsetDelete: offsets of topics that no member of a consumer group reads."""
        group = self._parts.groups.get(request.group_id)
        error = ErrorCode.group_id_not_found
        if group is not None:
            is_empty = group.state is GroupState.EMPTY
            may_delete = is_empty or group.protocol_type == CONSUMER
            error = ErrorCode.none if may_delete else ErrorCode.non_empty_group
        if group is None or error is not ErrorCode.none:
            self._parts.outbox.answer(token, DeleteOffsetsReply(error))
            return
        subscribed = frozenset(
            each.topic
            for each in request.topics
            if group.state is not GroupState.EMPTY and group.subscribes_to(each.topic)
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
        """DeleteGroups: groups without members, with their offsets."""
        waiting = _GroupsDeleted(self._parts, token, group_ids=request.group_ids)
        waiting.expect()
        for group_id in dict.fromkeys(request.group_ids):
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
        group: ClassicGroup,
        keys: Collection[Partition],
        now: Moment,
        waiting: "_Waiting | None" = None,
    ) -> None:
        """Remove these, and a group without members that has no others."""
        others = set(group.offsets.partitions()).difference(keys)
        is_last = group.state is GroupState.EMPTY and not others and not group.pending_join
        self._remove(group, keys, now, waiting, with_group=is_last)

    def _remove(
        self,
        group: ClassicGroup,
        keys: Collection[Partition],
        now: Moment,
        waiting: "_Waiting | None",
        *,
        with_group: bool,
    ) -> None:
        pieces = _pieces(keys)
        if with_group and not pieces:
            pieces.append([])
        for number, piece in enumerate(pieces, 1):
            takes_group = with_group and number == len(pieces)
            removal = _Removed(
                self._parts, group, group.generation_id, piece, waiting, takes_group=takes_group
            )
            records = [
                GroupRecord(offset_key(group.group_id, topic, partition), None)
                for topic, partition in piece
            ]
            if takes_group and group.generation_id > 0:
                # a group that only ever committed offsets has no record of its own
                records.append(GroupRecord(group_key(group.group_id), None))
            for key in piece:
                group.offsets.begin(key)
            if waiting is not None:
                waiting.expect()
            if records:
                self._parts.outbox.append(records, removal)
            else:
                removal.settle(now, is_stored=True)
                removal.answer(ErrorCode.none, now)


def _pieces(keys: Iterable[Partition]) -> list[list[Partition]]:
    everything = list(keys)
    return [
        everything[start : start + TOMBSTONES_PER_APPEND]
        for start in range(0, len(everything), TOMBSTONES_PER_APPEND)
    ]


@dataclass(slots=True)
class _Removed:
    """Tombstones: when they are stored, memory follows."""

    parts: ShardParts
    group: ClassicGroup
    generation_id: int
    """Of the group when it was decided."""
    keys: list[Partition]
    waiting: "_Waiting | None"
    takes_group: bool

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        group = self.group
        for key in self.keys:
            group.offsets.end(key)
            if is_stored:
                group.offsets.remove(*key)
        has_gone_on = (
            group.state is not GroupState.EMPTY or group.generation_id != self.generation_id
        )
        if not self.takes_group or not is_stored or has_gone_on:
            return
        if group.offsets.is_unused:
            self.parts.remove(group, now)
            log.info("Group %s has been removed.", group.group_id)
        else:
            group.clear()  # a commit came in between; of its generations, nothing is stored

    def answer(self, error: ErrorCode, now: Moment) -> None:
        del now
        if self.waiting is not None:
            self.waiting.answer(self.group.group_id, group_error(error))


@dataclass(slots=True)
class _Waiting:
    """A request that waits for appends: `expect` before each, `answer` after; then it is told."""

    parts: ShardParts
    token: object
    errors: dict[str, ErrorCode] = field(default_factory=dict)
    """By group."""
    expected: int = 0

    def expect(self) -> None:
        """One more outcome is awaited."""
        self.expected += 1

    def answer(self, group_id: str, error: ErrorCode) -> None:
        """One outcome is known."""
        if error is not ErrorCode.none:
            self.errors[group_id] = error
        self.expected -= 1
        if not self.expected:
            self.parts.outbox.answer(self.token, self.reply())

    def reply(self) -> object:
        """What the request is answered with."""
        raise NotImplementedError


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
