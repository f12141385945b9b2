"""One shard of the group coordinator with the part of its driver: time, appends, answers."""

import struct
from collections.abc import Iterable
from itertools import count
from typing import Any

from cluster.coordinator.groups.effects import Append, Effects, GroupRecord
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
    TopicPartitions,
)
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.topics import Topics
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.error_codes import ErrorCode

GROUP = "orders-readers"
WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = GroupOptions().initial_rebalance_delay_ms


def subscription(*topics: str, version: int = 0) -> bytes:
    """A consumer's metadata: these topics, and no bytes of its own."""
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1)


def protocols(*names: str, topics: Iterable[str] = ("orders",)) -> tuple[GroupProtocol, ...]:
    return tuple(GroupProtocol(name, subscription(*topics)) for name in names or ("range",))


class GroupStage:
    """Appends succeed at once, unless `holds_appends`: then `settle` says how they went.

    Answers are by token; a request's token is a number. A token that is answered twice fails.
    """

    def __init__(self, options: GroupOptions | None = None, topics: Topics | None = None) -> None:
        self.options = options or GroupOptions()
        self.uuids = count(1)
        self.counts = GroupCounts()
        self.shard = GroupShard(
            self.options, lambda: f"id-{next(self.uuids)}", topics, counts=self.counts
        )
        self.now_ms = 1_000
        self.holds_appends = False
        self.in_flight: list[Append] = []
        self.log: list[GroupRecord] = []
        self.answers: dict[int, Any] = {}
        self.asked: set[int] = set()
        self.tokens = count(1)

    @property
    def now(self) -> Moment:
        return Moment(MonotonicMs(self.now_ms), WallMs(WALL_MS + self.now_ms))

    # ------------------------------------------------------------------ the driver's part

    def loaded(self, records: Iterable[tuple[bytes | None, bytes | None]] = ()) -> "GroupStage":
        for key, value in records:
            self.shard.load(key, value)
            if key is not None:
                self.log.append(GroupRecord(key, value))
        self.perform(self.shard.on_loaded(self.now))
        return self

    def reloaded(self) -> "GroupStage":
        """Another broker's shard, from what is in the log."""
        successor = GroupStage(self.options)
        successor.now_ms = self.now_ms
        return successor.loaded(self.log)

    def continue_tokens(self, other: "GroupStage") -> None:
        """Give tokens and uuids that the other has not given."""
        self.tokens, self.uuids = other.tokens, other.uuids

    def perform(self, effects: Effects) -> None:
        for token, reply in effects.answers:
            assert isinstance(token, int)
            assert token in self.asked
            assert token not in self.answers, f"token {token} is answered twice"
            self.answers[token] = reply
        self.in_flight += effects.appends
        if not self.holds_appends:
            self.settle()

    def settle(self, error: ErrorCode = ErrorCode.none, *, is_in_log: bool | None = None) -> None:
        """All appends on their way succeed, or fail."""
        while self.in_flight:
            append = self.in_flight.pop(0)
            if error is ErrorCode.none or is_in_log:
                self.log += append.records
            self.perform_later(
                self.shard.on_appended(append.append_id, error, self.now, is_in_log=is_in_log)
            )

    def perform_later(self, effects: Effects) -> None:
        held, self.holds_appends = self.holds_appends, True
        self.perform(effects)
        self.holds_appends = held

    def pass_time(self, duration_ms: int) -> None:
        """Call the shard whenever it wants to be, until so much time has passed."""
        until_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.perform(self.shard.on_tick(self.now))
        self.now_ms = until_ms

    def unload(self) -> None:
        self.holds_appends = True
        self.perform(self.shard.unload(self.now))

    # ------------------------------------------------------------------ requests

    def token(self) -> int:
        token = next(self.tokens)
        self.asked.add(token)
        return token

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        client: str = "client",
        instance: str | None = None,
        offers: tuple[GroupProtocol, ...] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        knows_ids: bool = True,
        skips: bool = True,
        reason: str = "",
    ) -> int:
        token = self.token()
        request = JoinGroup(
            group,
            member_id,
            client,
            "/127.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols() if offers is None else offers,
            instance,
            knows_ids,
            skips,
            reason,
        )
        self.perform(self.shard.join(request, token, self.now))
        return token

    def join_new(self, **others: Any) -> tuple[str, int]:
        """Both steps of a new dynamic member: its id, and the token that waits."""
        refusal = self.answers[self.join(**others)]
        assert refusal.error is ErrorCode.member_id_required
        return refusal.member_id, self.join(refusal.member_id, **others)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        token = self.token()
        request = SyncGroup(
            GROUP,
            generation,
            member_id,
            instance,
            protocol_type,
            protocol_name,
            assignments or {},
        )
        self.perform(self.shard.sync(request, token, self.now))
        return token

    def heartbeat(
        self, member_id: str, generation: int, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        return self.shard.heartbeat(Heartbeat(group, generation, member_id, instance), self.now)

    def leave(self, *members: LeavingMember | str) -> int:
        token = self.token()
        leaving = tuple(LeavingMember(each) if isinstance(each, str) else each for each in members)
        self.perform(self.shard.leave(LeaveGroup(GROUP, leaving), token, self.now))
        return token

    def commit(
        self,
        offsets: dict[tuple[str, int], int] | None = None,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        group: str = GROUP,
        metadata: str = "",
        retention_ms: int = -1,
    ) -> int:
        token = self.token()
        entries = tuple(
            OffsetToCommit(topic, partition, offset, metadata=metadata)
            for (topic, partition), offset in (offsets or {("orders", 0): 5}).items()
        )
        request = CommitOffsets(group, entries, generation, member_id, instance, retention_ms)
        self.perform(self.shard.commit_offsets(request, token, self.now))
        return token

    def delete_groups(self, *groups: str) -> int:
        token = self.token()
        self.perform(self.shard.delete_groups(DeleteGroups(groups), token, self.now))
        return token

    def delete_offsets(self, *keys: tuple[str, int], group: str = GROUP) -> int:
        token = self.token()
        topics = tuple(TopicPartitions(topic, (partition,)) for topic, partition in keys)
        request = DeleteOffsets(group, topics)
        self.perform(self.shard.delete_offsets(request, token, self.now))
        return token

    # ------------------------------------------------------------------ what came of them

    def committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """All that OffsetFetch names."""
        fetched = self.shard.fetch_offsets(FetchOffsets(group)).offsets
        return {(each.topic, each.partition): each.offset for each in fetched}

    def fetch(self, *keys: tuple[str, int], stable: bool = False) -> list[FetchedOffset]:
        topics = tuple(TopicPartitions(topic, (partition,)) for topic, partition in keys)
        request = FetchOffsets(GROUP, topics, require_stable=stable)
        return list(self.shard.fetch_offsets(request).offsets)

    def state(self, group: str = GROUP) -> str:
        described = self.shard.describe(group)
        return "Dead" if described is None else described.state

    def commit_errors(self, token: int) -> list[ErrorCode]:
        return [each.error for each in self.answers[token].partitions]

    def joined(self, token: int) -> JoinGroupReply:
        reply = self.answers[token]
        assert isinstance(reply, JoinGroupReply)
        return reply

    def synced(self, token: int) -> SyncGroupReply:
        reply = self.answers[token]
        assert isinstance(reply, SyncGroupReply)
        return reply

    # ------------------------------------------------------------------ whole stories

    def stable(self, members: int = 1, **others: Any) -> list[str]:
        """A group with so many new members, assigned; the leader is the first. Generation 1."""
        joins = [self.join_new(**others) for _ in range(members)]
        self.pass_time(DELAY_MS * (members + 1))
        self.assign(joins)
        return [member_id for member_id, _ in joins]

    def completing(self, members: int = 1, **others: Any) -> list[str]:
        """The same, not assigned yet."""
        joins = [self.join_new(**others) for _ in range(members)]
        self.pass_time(DELAY_MS * (members + 1))
        assert self.state() == "CompletingRebalance"
        return [member_id for member_id, _ in joins]

    def assign(self, joins: list[tuple[str, int]]) -> None:
        """Every member of a generation syncs, the leader last; each gets its own id."""
        replies = [self.joined(token) for _, token in joins]
        assert {reply.error for reply in replies} == {ErrorCode.none}
        (generation,) = {reply.generation_id for reply in replies}
        (leader,) = {reply.leader for reply in replies}
        assignments = {member_id: member_id.encode() for member_id, _ in joins}
        syncs = {
            member_id: self.sync(
                member_id, generation, assignments if member_id == leader else None
            )
            for member_id, _ in sorted(joins, key=lambda each: each[0] == leader)
        }
        for member_id, token in syncs.items():
            assert self.synced(token).assignment == member_id.encode()
        assert self.state() == "Stable"
