"""One shard of the group coordinator; the stage does the runtime's part: time, appends, answers."""

import struct
from collections.abc import Iterable
from itertools import count
from typing import Any, get_args

from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    GroupDescription,
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeavingMember,
    ListedGroup,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
    TopicPartitions,
)
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.views.queries import DescribeGroup, ListGroups, ListRebalances
from cluster.coordinator.shards.effects import Append, CoordinatorRecord, Effects
from cluster.coordinator.shards.requests import Query, ReplyT, Request
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.error_codes import ErrorCode

GROUP = "orders-readers"
WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = GroupOptions().initial_rebalance_delay_ms


def subscription(*topics: str, version: int = 0) -> bytes:
    """The metadata of a consumer: these topics, and no user data."""
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1)


def protocols(*names: str, topics: Iterable[str] = ("orders",)) -> tuple[GroupProtocol, ...]:
    return tuple(GroupProtocol(name, subscription(*topics)) for name in names or ("range",))


def reply_type(request: Request[Any]) -> type:
    """The type in the brackets of the request's base class."""
    (base,) = type(request).__orig_bases__  # type: ignore[attr-defined]
    (found,) = get_args(base)
    return found


class GroupStage:
    """Appends succeed at once, unless `holds_appends` is set: then `settle` decides.

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
        self.log: list[CoordinatorRecord] = []
        self.answers: dict[int, Any] = {}
        self.asked: dict[int, type] = {}
        """The type of the reply to each token."""
        self.tokens = count(1)

    @property
    def now(self) -> Moment:
        return Moment(MonotonicMs(self.now_ms), WallMs(WALL_MS + self.now_ms))

    # ------------------------------------------------------------------ the runtime's part

    def loaded(self, records: Iterable[tuple[bytes | None, bytes | None]] = ()) -> "GroupStage":
        for key, value in records:
            self.shard.replay(key, value)
            if key is not None:
                self.log.append(CoordinatorRecord(key, value))
        self.perform(self.shard.on_loaded(self.now))
        return self

    def reloaded(self) -> "GroupStage":
        """The shard of another broker, loaded from the same log."""
        successor = GroupStage(self.options)
        successor.now_ms = self.now_ms
        return successor.loaded(self.log)

    def continue_tokens(self, other: "GroupStage") -> None:
        """Continue with tokens and uuids that the other stage has not used."""
        self.tokens, self.uuids = other.tokens, other.uuids

    def perform(self, effects: Effects) -> None:
        for token, reply in effects.answers:
            assert isinstance(token, int)
            assert token in self.asked
            assert token not in self.answers, f"token {token} is answered twice"
            assert isinstance(reply, self.asked[token])
            self.answers[token] = reply
        self.in_flight += effects.appends
        if not self.holds_appends:
            self.settle()

    def settle(self, error: ErrorCode = ErrorCode.none, *, is_in_log: bool | None = None) -> None:
        """All appends in flight succeed, or fail."""
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
        """Call the shard at its deadlines until so much time has passed."""
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

    def submit(self, request: Request[Any]) -> int:
        """The token by which the reply is found in `answers`, now or later."""
        token = next(self.tokens)
        self.asked[token] = reply_type(request)
        self.perform(self.shard.submit(request, token, self.now))
        return token

    def ask(self, query: Query[ReplyT]) -> ReplyT:
        return self.shard.ask(query, self.now)

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
        return self.submit(request)

    def join_new(self, **others: Any) -> tuple[str, int]:
        """Take the two steps of a new dynamic member; returns its id and the token that waits."""
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
        request = SyncGroup(
            GROUP,
            generation,
            member_id,
            instance,
            protocol_type,
            protocol_name,
            assignments or {},
        )
        return self.submit(request)

    def heartbeat(
        self, member_id: str, generation: int, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        return self.ask(Heartbeat(group, generation, member_id, instance))

    def leave(self, *members: LeavingMember | str) -> int:
        leaving = tuple(LeavingMember(each) if isinstance(each, str) else each for each in members)
        return self.submit(LeaveGroup(GROUP, leaving))

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
        entries = tuple(
            OffsetToCommit(topic, partition, offset, metadata=metadata)
            for (topic, partition), offset in (offsets or {("orders", 0): 5}).items()
        )
        request = CommitOffsets(group, entries, generation, member_id, instance, retention_ms)
        return self.submit(request)

    def delete_groups(self, *groups: str) -> int:
        return self.submit(DeleteGroups(groups))

    def delete_offsets(self, *keys: tuple[str, int], group: str = GROUP) -> int:
        topics = tuple(TopicPartitions(topic, (partition,)) for topic, partition in keys)
        request = DeleteOffsets(group, topics)
        return self.submit(request)

    # ------------------------------------------------------------------ results

    def rebalances(self, group: str = GROUP) -> tuple[Rebalance, ...]:
        return self.ask(ListRebalances()).get(group, ())

    def described_classic(self, group: str = GROUP) -> GroupDescription | None:
        return self.ask(DescribeGroup(group))

    def listed(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        return self.ask(ListGroups(tuple(states), tuple(types)))

    def committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """All offsets that OffsetFetch returns."""
        fetched = self.ask(FetchOffsets(group)).offsets
        return {(each.topic, each.partition): each.offset for each in fetched}

    def fetch(self, *keys: tuple[str, int], stable: bool = False) -> list[FetchedOffset]:
        topics = tuple(TopicPartitions(topic, (partition,)) for topic, partition in keys)
        request = FetchOffsets(GROUP, topics, require_stable=stable)
        return list(self.ask(request).offsets)

    def state(self, group: str = GROUP) -> str:
        described = self.described_classic(group)
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

    # ------------------------------------------------------------------ scenarios

    def stable(self, members: int = 1, **others: Any) -> list[str]:
        """A stable group with so many new members in generation 1; the first is the leader."""
        joins = [self.join_new(**others) for _ in range(members)]
        self.pass_time(DELAY_MS * (members + 1))
        self.assign(joins)
        return [member_id for member_id, _ in joins]

    def completing(self, members: int = 1, **others: Any) -> list[str]:
        """A group with so many new members, whose assignment is missing."""
        joins = [self.join_new(**others) for _ in range(members)]
        self.pass_time(DELAY_MS * (members + 1))
        assert self.state() == "CompletingRebalance"
        return [member_id for member_id, _ in joins]

    def assign(self, joins: list[tuple[str, int]]) -> None:
        """All members of a generation sync, the leader last; each is assigned its own id."""
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
