"""The interface by which the runtime drives a coordinator's state machine. Pure.

Kafka: `CoordinatorShard` and `CoordinatorRuntime`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from cluster.coordinator.shards.effects import Effects
from cluster.coordinator.shards.load_report import LoadReport
from cluster.coordinator.shards.requests import Query, ReplyT, Request
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID


class Shard(Protocol):
    """The state that one partition of an internal topic stores, while this broker leads it.

    A shard performs no I/O and reads no clock. It belongs to the thread that drives it.

    Lifecycle: `replay` for every record of the partition, oldest first; `finishing_steps`;
    `on_loaded`; then requests, queries, `resuming_steps`, `on_appended` and `on_tick`; `unload`
    when the broker stops leading the partition, after which the shard is dropped.

    Invariant: each token returns in exactly one `Answer`, from the call that passed it, from a
    later call, or from `unload`. The token identifies the request that waits for the reply.
    """

    @property
    def load_report(self) -> LoadReport:
        """What the replayed records were."""
        ...

    def replay(
        self, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Apply one stored record; of records with the same key the last one counts.

        `producer_id` is that of a transactional batch. Raises nothing: a record that cannot be
        decoded is counted in `load_report`.
        """
        ...

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of a producer's transaction, whose marker is stored in the partition."""
        ...

    def finishing_steps(self) -> Iterator[None]:
        """All records were replayed: complete the state in short steps."""
        ...

    def on_loaded(self, now: Moment) -> Effects:
        """The state is complete: timeouts begin."""
        ...

    def resuming_steps(self, now: Callable[[], Moment]) -> Iterator[Effects]:
        """Go on with what the records say was begun, in short steps; requests come in between."""
        ...

    def submit(self, request: Request[Any], token: object, now: Moment) -> Effects:
        """Take a request, whose reply is an `Answer` with this token, now or later."""
        ...

    def ask(self, query: Query[ReplyT], now: Moment) -> ReplyT:
        """Answer a query."""
        ...

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_in_log: bool | None = None
    ) -> Effects:
        """Take the outcome of an append; called once for each, in their order.

        `is_in_log` is given with an error and says whether the records are in the log nevertheless
        and will stay there (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
        """
        ...

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        """The append was not confirmed in time: answer those who wait for it with
        REQUEST_TIMED_OUT. `on_appended` still reports its outcome once it is known."""
        ...

    def next_deadline_ms(self) -> MonotonicMs | None:
        """When `on_tick` must be called next; None if nothing is scheduled. May be in the past."""
        ...

    def on_tick(self, now: Moment) -> Effects:
        """Do a bounded amount of the work that is due; the deadline of the rest is in the past."""
        ...

    def unload(self, now: Moment) -> Effects:
        """Answer every waiting request with NOT_COORDINATOR. Only `on_appended`, which then does
        nothing, queries, which find nothing, and `forgetting_steps` may be called afterwards."""
        ...

    def forgetting_steps(self) -> Iterator[None]:
        """After `unload`: free the memory of the state in short steps."""
        ...
