"""Enforces quotas as KIP-219 says: the answer goes at once and tells the delay, then the channel is
not read until the delay is over, so a client that ignores it is held back all the same.

Decides no delay itself: `ClientQuotas` does. What brokers send each other comes by other links.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from cluster.brokers.network.channel import Channel, MuteReason, Outgoing
from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.model.quotas import QuotaKind

_PERCENT_SECONDS_PER_US: Final = 1e-4
"""100 % of one thread for one second is 1e6 us."""


class Timers(Protocol):
    """What is used of the event loop."""

    now_ms: int

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` at the monotonic deadline."""
        ...


class Delay(NamedTuple):
    """The larger of two delays, and the kind of quota that asks for it; 0 ms is none."""

    ms: int
    kind: QuotaKind


class _Mute(NamedTuple):
    kind: QuotaKind
    user: str
    client_id: str
    until_ms: int
    timer: Cancellable


class QuotaThrottle:
    """One per broker, used by its thread only.

    Invariant: a channel is in `_mutes` exactly while it is open and muted for QUOTA.
    """

    def __init__(self, quotas: ClientQuotas, timers: Timers) -> None:
        self._quotas = quotas
        self._timers = timers
        self._mutes: dict[Channel, _Mute] = {}

    @property
    def muted_count(self) -> int:
        """How many channels are muted for a quota (Kafka's delay queue size)."""
        return len(self._mutes)

    # -- what was used -----------------------------------------------------------------------------

    def on_request(self, user: str, client_id: str, handling_us: int) -> Delay:
        """A request took so long on the broker's thread."""
        ms = self._quotas.record(
            QuotaKind.REQUEST,
            user,
            client_id,
            handling_us * _PERCENT_SECONDS_PER_US,
            self._timers.now_ms,
        )
        return Delay(ms, QuotaKind.REQUEST)

    def on_produced(self, user: str, client_id: str, size_bytes: int, handling_us: int) -> Delay:
        """A produce request of that size was handled."""
        by_time = self.on_request(user, client_id, handling_us)
        now_ms = self._timers.now_ms
        by_bytes = self._quotas.record(QuotaKind.PRODUCE, user, client_id, size_bytes, now_ms)
        return Delay(by_bytes, QuotaKind.PRODUCE) if by_bytes > by_time.ms else by_time

    def on_fetched(self, user: str, client_id: str, size_bytes: int, handling_us: int) -> Delay:
        """A fetch could be answered with so many bytes; with a delay they must not be sent."""
        by_time = self.on_request(user, client_id, handling_us)
        now_ms = self._timers.now_ms
        by_bytes = self._quotas.record(QuotaKind.FETCH, user, client_id, size_bytes, now_ms)
        if by_bytes == 0 and by_time.ms == 0:
            return by_time
        self._quotas.unrecord(QuotaKind.FETCH, user, client_id, size_bytes, now_ms)
        return Delay(by_bytes, QuotaKind.FETCH) if by_bytes > by_time.ms else by_time

    # -- holding back ------------------------------------------------------------------------------

    def respond(
        self,
        channel: Channel,
        user: str,
        client_id: str,
        buffers: "list[Outgoing] | None",
        delay: Delay,
    ) -> None:
        """Answer the channel's request, and then do not read from it for the delay."""
        if not channel.is_open:
            return
        # Muted before the answer leaves: else the next request would be taken up at once.
        channel.mute(MuteReason.QUOTA)
        channel.respond(buffers)
        now_ms = self._timers.now_ms
        self._quotas.on_throttled(delay.kind, user, client_id, delay.ms, now_ms)
        if channel.is_open:
            self._hold(channel, delay.kind, user, client_id, now_ms + delay.ms)

    def on_limits_changed(self) -> None:
        """Other limits are in force: whoever would wait less now is released sooner."""
        now_ms = self._timers.now_ms
        for channel, mute in list(self._mutes.items()):
            delay_ms = self._quotas.delay_ms(mute.kind, mute.user, mute.client_id, now_ms)
            if now_ms + delay_ms >= mute.until_ms:
                continue
            mute.timer.cancel()
            until_ms = now_ms + delay_ms
            self._quotas.on_limits_eased(mute.kind, mute.user, mute.client_id, until_ms, now_ms)
            self._hold(channel, mute.kind, mute.user, mute.client_id, until_ms)

    def _hold(
        self, channel: Channel, kind: QuotaKind, user: str, client_id: str, until_ms: int
    ) -> None:
        timer = self._timers.call_at(until_ms, lambda: self._release(channel))
        self._mutes[channel] = _Mute(kind, user, client_id, until_ms, timer)
        # A muted channel has no request in progress, so nobody else needs to hear of its end.
        channel.on_close = lambda: self._forget(channel)

    def _release(self, channel: Channel) -> None:
        if self._mutes.pop(channel, None) is not None:
            channel.on_close = None
            channel.unmute(MuteReason.QUOTA)

    def _forget(self, channel: Channel) -> None:
        mute = self._mutes.pop(channel, None)
        if mute is not None:
            mute.timer.cancel()


def size_of(buffers: "Sequence[Outgoing]") -> int:
    """How many bytes an answer puts on the wire."""
    return sum(
        len(buffer) if isinstance(buffer, (bytes, bytearray, memoryview)) else buffer.size_bytes
        for buffer in buffers
    )
