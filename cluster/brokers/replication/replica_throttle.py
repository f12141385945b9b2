"""Which replicas are throttled in one direction, and who waits until their bytes may move."""

from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

from cluster.brokers.network.purgatory import Cancellable
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition
from cluster.quotas.replication_quota import Grant, ReplicationQuota
from cluster.quotas.sampled_rate import WindowOptions

W = TypeVar("W")

NO_LIMIT: Final = 2**31 - 1
"""Stands for the bytes that a fetch of a partition may return if replication is not throttled."""


class ReplicaThrottle(Generic[W]):
    """Owned by the broker's thread. `W` is who waits: a follower's session, or a fetcher.

    Those that wait take turns, so that each gets its share. Kafka: `ReplicationQuotaManager`.
    """

    def __init__(
        self,
        quota: ReplicationQuota,
        now_ms: Callable[[], MonotonicMs],
        call_at: Callable[[int, Callable[[], None]], Cancellable],
    ) -> None:
        self.quota = quota
        self.is_active = False
        """Whether any replica is throttled, so that bytes must be counted."""
        self._now_ms = now_ms
        self._call_at = call_at
        self._replicas: dict[str, Collection[int] | None] = {}
        self._waiting: dict[W, None] = {}
        self._serve: Callable[[W], None] = _serve_nobody
        self._on_changed: Callable[[], None] = _do_nothing
        self._turn: W | None = None
        """Who is being served."""
        self._timer: Cancellable | None = None
        self._wake_at_ms = 0

    def connect(self, serve: Callable[[W], None], on_changed: Callable[[], None]) -> None:
        """`serve` lets somebody `take`, who waits again if that is not enough; `on_changed` is
        called after replicas or limit have changed.
        """
        self._serve = serve
        self._on_changed = on_changed

    # -- configs ---------------------------------------------------------------------------------

    def set_replicas(self, topic: str, partitions: Collection[int] | None) -> None:
        """Throttle this broker's replicas of these partitions of a topic; None for all of them.

        Call `apply` afterwards.
        """
        if partitions is None or partitions:
            self._replicas[topic] = partitions
        else:
            self._replicas.pop(topic, None)

    def set_limit(self, limit: int | None) -> None:
        """Take a new limit in bytes per second. Call `apply` afterwards."""
        self.quota.set_limit(limit, self._now_ms())

    def apply(self) -> None:
        """Bring those that wait in line with the changed configs."""
        self.is_active = bool(self._replicas)
        self._on_changed()
        self.serve()

    # -- bytes -----------------------------------------------------------------------------------

    def counts(self, partition: TopicPartition) -> bool:
        """Whether this broker's replica of a partition is throttled, so that its bytes count."""
        partitions = self._replicas.get(partition.topic, ())
        return partitions is None or partition.partition in partitions

    def limits(self, partition: TopicPartition) -> bool:
        """Whether the bytes of a partition may have to wait."""
        return self.quota.limit is not None and self.counts(partition)

    def take(self, waiter: W) -> Grant | None:
        """Reserve bytes for one answer; None if the quota is exceeded, or it is others' turn."""
        if self._waiting and waiter is not self._turn and waiter is not next(iter(self._waiting)):
            return None
        others = len(self._waiting) - (waiter in self._waiting)
        return self.quota.take(self._now_ms(), 1 + others)

    def settle(self, grant: Grant, used: int) -> None:
        """Count an answer for which bytes were reserved (`ReplicationQuota.settle`)."""
        self.quota.settle(grant, used, self._now_ms())

    def record(self, partition: TopicPartition, used: int) -> None:
        """Count bytes that were not reserved, if the replica is throttled."""
        if used and self.counts(partition):
            self.quota.record(used, self._now_ms())

    # -- turns -----------------------------------------------------------------------------------

    def wait(self, waiter: W) -> None:
        """Serve somebody when it is their turn and bytes may move; they keep an earlier place."""
        self._waiting.setdefault(waiter)
        if self._turn is None:
            self._wake_after(self.quota.wait_ms(self._now_ms()))

    def leave(self, waiter: W) -> None:
        """Forget somebody who waits."""
        self._waiting.pop(waiter, None)

    def serve(self) -> None:
        """Serve those that wait, each once, as long as bytes may move."""
        if self._turn is not None:
            return
        for waiter in list(self._waiting):
            if self.quota.wait_ms(self._now_ms()) != 0:
                break
            if waiter in self._waiting:
                del self._waiting[waiter]
                self._turn = waiter
                self._serve(waiter)
        self._turn = None
        if self._waiting:
            wait_ms = self.quota.wait_ms(self._now_ms())
            if wait_ms != 0:  # otherwise those that wait are not ready: they call when they are
                self._wake_after(wait_ms)

    def _wake_after(self, wait_ms: int | None) -> None:
        if wait_ms is None:
            return
        at_ms = self._now_ms() + wait_ms
        if self._timer is not None:
            if at_ms >= self._wake_at_ms:
                return
            self._timer.cancel()
        self._wake_at_ms = at_ms
        self._timer = self._call_at(at_ms, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.serve()


def _serve_nobody(_waiter: object) -> None:
    return


def _do_nothing() -> None:
    return


def no_throttle() -> ReplicaThrottle[Any]:
    """A throttle without replicas, which never limits anything."""
    at_ms = MonotonicMs(0)
    return ReplicaThrottle(
        ReplicationQuota(WindowOptions(), at_ms), lambda: at_ms, lambda _at_ms, _call: _NoTimer()
    )


class _NoTimer:
    def cancel(self) -> None:
        """Do nothing."""
