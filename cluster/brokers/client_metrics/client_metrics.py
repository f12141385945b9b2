"""Answers clients that ask for subscriptions and push metrics, and keeps what they pushed.

Kafka: `ClientMetricsManager`, with this class for its `ClientMetricsReceiverPlugin`.
"""

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from cluster.brokers.client_metrics.configs import ClientMetricsConfigs
from cluster.brokers.client_metrics.instances import ClientInstances, Counts, Push
from cluster.brokers.client_metrics.pushed import PushedMetrics
from cluster.brokers.client_metrics.subscriptions import Wanted
from cluster.coordinator.cluster_store import StoreSession
from cluster.model.errors import ErrorCode, PeerError, Refused
from cluster.protocol.otlp import read_metrics
from cluster.records.batch import Compression
from cluster.records.compression import TooLong, decompress
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

_EXPIRY_CHECK_MS: Final = 10_000
_DECOMPRESSED_RATIO: Final = 4
"""A push may be that many times `telemetry.max.bytes` once it is decompressed."""


class ClientMetrics:
    """One per broker, used by its thread."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        new_id: Callable[[], UUID],
        max_bytes: int,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self.max_bytes: Final = max_bytes
        """`telemetry.max.bytes`."""
        self.counts: Final = Counts()
        self.pushed: Final = PushedMetrics()
        self.instances: Final = ClientInstances(new_id, self.pushed.forget, self.counts)
        self.configs: Final = ClientMetricsConfigs(store, loop, clock, self.instances.take)

    def start(self) -> None:
        """Start the timer that forgets silent clients."""
        self._loop.call_every(
            _EXPIRY_CHECK_MS, lambda: self.instances.expire(self._clock.monotonic_ms())
        )

    def on_get(
        self, client_instance_id: UUID | None, facts: Mapping[str, str]
    ) -> tuple[UUID, Wanted]:
        """What a client is asked for, and its id, new if it has none. Raises Refused."""
        return self.instances.on_get(client_instance_id, facts, self._clock.monotonic_ms())

    def on_push(self, push: Push, facts: Mapping[str, str], user: str, metrics: bytes) -> None:
        """Take a push. Raises Refused, with INVALID_RECORD for metrics that cannot be read."""
        instance = self.instances.on_push(push, facts, self._clock.monotonic_ms(), self.max_bytes)
        client = push.client_instance_id
        if not metrics or client is None:
            return
        try:
            plain = decompress(
                Compression(push.compression_type), metrics, self.max_bytes * _DECOMPRESSED_RATIO
            )
            found = read_metrics(bytes(plain))
        except (PeerError, Refused) as problem:
            self.counts.failed_exports += 1
            code = ErrorCode.invalid_record
            if isinstance(problem, TooLong):
                code = ErrorCode.telemetry_too_large
            instance.last_error = code
            raise Refused(code, str(problem)) from problem
        self.counts.exports += 1
        self.pushed.take(
            client,
            instance.facts,
            user,
            found,
            self._clock.wall_ms(),
            is_terminating=push.is_terminating,
        )
