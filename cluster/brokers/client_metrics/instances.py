"""The client instances that ask for subscriptions and push metrics, and what they may do. Pure.

Kafka: `ClientMetricsManager` and `ClientMetricsInstance`. An instance is forgotten when it has sent
nothing for three push intervals, and at least for a minute.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from cluster.brokers.client_metrics.subscriptions import Subscription, Wanted, wanted_of
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import encode_uuid
from cluster.records.batch import Compression

INSTANCES_MAX: Final = 16_384
"""Above this, the one that was silent for longest is forgotten. 1 kB each at most."""
EXPIRY_MS: Final = 60_000
_RESERVED_IDS: Final = 100
_LONG_AGO: Final = -(1 << 62)
_MAY_ASK_AGAIN: Final = (
    ErrorCode.unknown_subscription_id,
    ErrorCode.unsupported_compression_type,
)
"""A client that was told one of these asks for its subscription at once."""
_CODECS: Final = frozenset(map(int, Compression))


class Push(NamedTuple):
    """A PushTelemetry request."""

    client_instance_id: UUID | None
    subscription_id: int
    is_terminating: bool
    compression_type: int
    size_bytes: int


class Counts:
    """What Kafka counts, since the broker's start."""

    __slots__ = ("exports", "failed_exports", "throttled", "unknown_subscriptions")

    def __init__(self) -> None:
        self.unknown_subscriptions = 0
        self.throttled = 0
        self.exports = 0
        self.failed_exports = 0


class Instance:
    """One client instance, with what it is asked for as of `version` of the subscriptions."""

    __slots__ = (
        "expires_ms",
        "facts",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "version",
        "wanted",
    )

    def __init__(self, facts: Mapping[str, str], wanted: Wanted, version: int) -> None:
        self.facts = facts
        self.wanted = wanted
        self.version = version
        self.last_get_ms = self.last_push_ms = _LONG_AGO
        self.last_error = ErrorCode.none
        self.is_terminating = False
        self.expires_ms = 0


class ClientInstances:
    """Used by one thread. Invariant: at most `INSTANCES_MAX`, those heard last at the end."""

    def __init__(
        self,
        new_id: Callable[[], UUID],
        on_forgotten: Callable[[UUID], object],
        counts: Counts,
    ) -> None:
        """`on_forgotten` is called for each instance that is forgotten."""
        self._new_id = new_id
        self._on_forgotten = on_forgotten
        self._counts = counts
        self._version = 0
        self._subscriptions: Mapping[str, Subscription] = {}
        self._known: OrderedDict[UUID, Instance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def take(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Replace the subscriptions; each client is asked anew at its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def on_get(
        self, client_instance_id: UUID | None, facts: Mapping[str, str], now_ms: MonotonicMs
    ) -> tuple[UUID, Wanted]:
        """What a client is asked for, and its id, new if it has none. Raises Refused."""
        known = self._new_unused_id() if client_instance_id is None else client_instance_id
        instance = self._instance(known, facts, now_ms)
        if now_ms - max(instance.last_get_ms, instance.last_push_ms) >= instance.wanted.interval_ms:
            instance.last_get_ms = now_ms
        elif instance.last_error not in _MAY_ASK_AGAIN:
            raise self._too_early(known)
        instance.last_error = ErrorCode.none
        return known, instance.wanted

    def on_push(
        self, push: Push, facts: Mapping[str, str], now_ms: MonotonicMs, max_bytes: int
    ) -> Instance:
        """Admit a push of at most `max_bytes`. Raises Refused."""
        known = push.client_instance_id
        if known is None or known.int < _RESERVED_IDS:
            raise Refused(
                ErrorCode.invalid_request,
                f"Invalid request from the client [{'' if known is None else encode_uuid(known)}],"
                " invalid client instance id",
            )
        instance = self._instance(known, facts, now_ms)
        try:
            self._check(push, known, instance, now_ms, max_bytes)
        except Refused as refused:
            instance.last_error = refused.code
            raise
        finally:
            instance.is_terminating = push.is_terminating
        return instance

    def expire(self, now_ms: MonotonicMs) -> None:
        """Forget the instances that have been silent for too long."""
        for known in [each for each, found in self._known.items() if found.expires_ms <= now_ms]:
            self._forget(known)

    def _check(
        self, push: Push, known: UUID, instance: Instance, now_ms: MonotonicMs, max_bytes: int
    ) -> None:
        if instance.is_terminating:
            raise Refused(
                ErrorCode.invalid_request,
                f"Client [{encode_uuid(known)}] sent the previous request with state terminating to"
                " TRUE, can not accept any requests after that",
            )
        # A first push after a new subscription comes earlier: clients spread theirs.
        is_due = (
            instance.last_get_ms > instance.last_push_ms
            or now_ms - instance.last_push_ms >= instance.wanted.interval_ms
        )
        if is_due:
            instance.last_push_ms = now_ms
        elif not push.is_terminating:
            raise self._too_early(known)
        if push.subscription_id != instance.wanted.subscription_id:
            self._counts.unknown_subscriptions += 1
            raise Refused(
                ErrorCode.unknown_subscription_id,
                f"Unknown client subscription id for the client [{encode_uuid(known)}]",
            )
        if push.compression_type not in _CODECS:
            raise Refused(
                ErrorCode.unsupported_compression_type,
                f"Unknown compression type [{push.compression_type}] is received in telemetry"
                f" request from [{encode_uuid(known)}]",
            )
        if push.size_bytes > max_bytes:
            raise Refused(
                ErrorCode.telemetry_too_large,
                f"Telemetry request from [{encode_uuid(known)}] is larger than the maximum allowed"
                f" size [{max_bytes}]",
            )

    def _too_early(self, known: UUID) -> Refused:
        self._counts.throttled += 1
        return Refused(
            ErrorCode.throttling_quota_exceeded,
            f"Request from the client [{encode_uuid(known)}] arrived before the next push interval"
            " time",
        )

    def _instance(self, known: UUID, facts: Mapping[str, str], now_ms: MonotonicMs) -> Instance:
        found = self._known.get(known)
        if found is None or found.version < self._version:
            # As in Kafka, an instance that is asked anew may push and ask at once.
            kept = found.facts if found else {**facts, "client_instance_id": encode_uuid(known)}
            wanted = wanted_of(known, kept, self._subscriptions.values())
            found = self._known[known] = Instance(kept, wanted, self._version)
        found.expires_ms = now_ms + max(EXPIRY_MS, 3 * found.wanted.interval_ms)
        self._known.move_to_end(known)
        if len(self._known) > INSTANCES_MAX:
            self._forget(next(iter(self._known)))
        return found

    def _forget(self, known: UUID) -> None:
        del self._known[known]
        self._on_forgotten(known)

    def _new_unused_id(self) -> UUID:
        while True:
            made = self._new_id()
            if made not in self._known and made.int >= _RESERVED_IDS:
                return made
