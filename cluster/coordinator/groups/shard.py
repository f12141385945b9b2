"""The groups of one partition of `__consumer_offsets`: one object that takes every event. Pure.

Kafka: `GroupCoordinator` and `GroupMetadataManager`; the shape (records out, replay in, a reply
when they are committed) is that of `CoordinatorRuntime`.
"""

from collections.abc import Callable, Collection

from cluster.coordinator.groups.effects import Effects
from cluster.coordinator.groups.history import Rebalance
from cluster.coordinator.groups.moment import Moment
from cluster.coordinator.groups.options import GroupOptions
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
from cluster.model.clocks import MonotonicMs
from cluster.model.error_codes import ErrorCode


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

    def __init__(self, options: GroupOptions, new_uuid: Callable[[], str]) -> None:
        """`new_uuid` gives the random part of a member id: the text of a UUID."""
        raise NotImplementedError

    # ------------------------------------------------------------------ loading and unloading

    def load(self, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        """Take in one record of the partition; the newest of a key counts. Raises nothing.

        What cannot be read, or is of a kind that is not known here, is counted in `load_report`.
        `producer_id` is that of a transactional batch, else -1.
        """
        raise NotImplementedError

    def load_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Take in the end of a transaction, where the partition has its control batch."""
        raise NotImplementedError

    def on_loaded(self, now: Moment) -> Effects:
        """All records are in: members get their session timeouts from now, checks begin.

        A group with more members than `group.max.size` begins a rebalance.
        """
        raise NotImplementedError

    def unload(self) -> Effects:
        """The broker does not coordinate these groups any more: answers every request that waits
        with NOT_COORDINATOR. Nothing may be called after it but `on_appended`, which does nothing.
        """
        raise NotImplementedError

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
        raise NotImplementedError

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        """The append takes longer than `offsets.commit.timeout.ms`: answers those who wait for it
        as for REQUEST_TIMED_OUT. Its outcome is still told by `on_appended` when it is known.
        """
        raise NotImplementedError

    def next_deadline_ms(self) -> MonotonicMs | None:
        """When to call `on_tick` next, at the latest; None for not at all. May be in the past."""
        raise NotImplementedError

    def on_tick(self, now: Moment) -> Effects:
        """Carry out what is due: session and rebalance timeouts, a part of the check for expired
        offsets. Bounded work: what is left is due at once (`next_deadline_ms`).
        """
        raise NotImplementedError

    def on_topics_deleted(self, topics: Collection[str], now: Moment) -> Effects:
        """Remove what groups have committed for these topics."""
        raise NotImplementedError

    # ------------------------------------------------------------------ requests of members

    def join(self, request: JoinGroup, token: object, now: Moment) -> Effects:
        """JoinGroup; answered with a JoinGroupReply, often only when the others have joined."""
        raise NotImplementedError

    def sync(self, request: SyncGroup, token: object, now: Moment) -> Effects:
        """SyncGroup; answered with a SyncGroupReply, when the leader's assignment is stored."""
        raise NotImplementedError

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """Heartbeat, answered at once."""
        raise NotImplementedError

    def leave(self, request: LeaveGroup, token: object, now: Moment) -> Effects:
        """LeaveGroup; answered with a LeaveGroupReply."""
        raise NotImplementedError

    # ------------------------------------------------------------------ offsets

    def commit_offsets(self, request: CommitOffsets, token: object, now: Moment) -> Effects:
        """OffsetCommit; answered with a CommitReply, when the offsets are stored."""
        raise NotImplementedError

    def commit_transactional(
        self, request: TransactionalCommit, token: object, now: Moment
    ) -> Effects:
        """TxnOffsetCommit; answered with a CommitReply, when the offsets are stored.

        The driver appends the records in a transactional batch of the producer. The offsets are
        seen when `end_transaction` says so.
        """
        raise NotImplementedError

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of the producer's transaction is in the partition and committed."""
        raise NotImplementedError

    def fetch_offsets(self, request: FetchOffsets) -> FetchedOffsets:
        """OffsetFetch, answered at once out of what is committed."""
        raise NotImplementedError

    def delete_offsets(self, request: DeleteOffsets, token: object, now: Moment) -> Effects:
        """OffsetDelete; answered with a DeleteOffsetsReply, when it is stored."""
        raise NotImplementedError

    # ------------------------------------------------------------------ whole groups

    def delete_groups(self, request: DeleteGroups, token: object, now: Moment) -> Effects:
        """DeleteGroups; answered with a DeleteGroupsReply, when it is stored."""
        raise NotImplementedError

    def describe(self, group_id: str) -> GroupDescription | None:
        """DescribeGroups; None if there is no such group: the state `Dead` and no error up to
        version 5, GROUP_ID_NOT_FOUND from version 6 on.
        """
        raise NotImplementedError

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """ListGroups: those in one of the states and of one of the types, in any case of letters;
        empty for any.
        """
        raise NotImplementedError

    def rebalances(self, group_id: str, now: Moment) -> tuple[Rebalance, ...]:
        """The group's last rebalances, oldest first, the running one last; empty if unknown."""
        raise NotImplementedError

    def state_times_ms(self, group_id: str, now: Moment) -> dict[str, int]:
        """How long the group has been in each state since it was loaded or made, by the state."""
        raise NotImplementedError
