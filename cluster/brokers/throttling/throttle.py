"""Enforces quotas as in KIP-219.

The response is sent at once and contains the throttle time; then the channel is not read until that
time is over, so that a client which ignores it is limited, too. `ClientQuotas` computes the delays.
Traffic between brokers uses other links and is not limited.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from cluster.brokers.network.connection import Connection, MuteReason, Outgoing
from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.throttling.connected_clients import TOLD_MS, ConnectedClients
from cluster.model.clocks import MonotonicMs
from cluster.quotas.account import Account, Delay

_RELEASED_PER_STEP: Final = 16
"""Channels that are checked or released before other work has its turn."""


class Timers(Protocol):
    """The part of the event loop that is used here."""

    now_ms: MonotonicMs

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` at the monotonic deadline."""
        ...


class _Mute(NamedTuple):
    account: Account
    since_ms: int
    until_ms: int
    arrived_bytes: int
    """Bytes that had arrived and were not received when the mute began."""
    timer: Cancellable


class QuotaThrottle:
    """One per broker, used by its thread only.

    Invariant: a channel is in `_mutes` exactly while it is open and muted for QUOTA, and counted in
    `muted_channels` of its account.
    """

    def __init__(
        self,
        timers: Timers,
        connected: ConnectedClients,
        start: Callable[[Iterator[None], int], None],
    ) -> None:
        """`connected` learns who paused while muted; `start` runs work in steps (`Slices`)."""
        self._timers = timers
        self._start = start
        self._due: deque[Connection] = deque()
        """Channels whose delay is over."""
        self.connected = connected
        self._mutes: dict[Connection, _Mute] = {}

    @property
    def muted_count(self) -> int:
        """The number of channels muted for a quota (Kafka's delay queue size)."""
        return len(self._mutes)

    def respond(self, channel: Connection, buffers: "list[Outgoing] | None", delay: Delay) -> None:
        """Send the response to the channel's request, then do not read from the channel for the
        delay.
        """
        if not channel.is_open:
            return
        # Muted before the response leaves; otherwise the next request would be handled at once.
        channel.mute(MuteReason.QUOTA)
        # Before the response leaves: the next request may arrive as soon as it is sent.
        arrived_bytes = channel.arrived_bytes()
        channel.respond(buffers)
        now_ms = self._timers.now_ms
        delay.account.on_throttled(delay.ms, now_ms)
        if channel.is_open:
            self._hold(channel, delay.account, now_ms, now_ms + delay.ms, arrived_bytes)

    def on_limits_changed(
        self, refreshed: Callable[[Account, MonotonicMs], Account]
    ) -> Iterator[None]:
        """Release channels sooner whose delay is shorter under new limits.

        Done in steps, since there may be thousands. `refreshed` gives an account its current limit.
        """
        for count, channel in enumerate(list(self._mutes), 1):
            if count % _RELEASED_PER_STEP == 0:
                yield
            mute = self._mutes.get(channel)
            if mute is None:
                continue
            now_ms = self._timers.now_ms
            account = refreshed(mute.account, now_ms)
            until_ms = now_ms + account.delay_ms(now_ms)
            if until_ms < mute.until_ms:
                mute.timer.cancel()
                mute.account.muted_channels -= 1
                account.on_limits_eased(MonotonicMs(until_ms), now_ms)
                self._hold(channel, account, mute.since_ms, until_ms, mute.arrived_bytes)

    def _hold(
        self,
        channel: Connection,
        account: Account,
        since_ms: int,
        until_ms: int,
        arrived_bytes: int,
    ) -> None:
        timer = self._timers.call_at(until_ms, lambda: self._on_due(channel))
        account.muted_channels += 1
        self._mutes[channel] = _Mute(account, since_ms, until_ms, arrived_bytes, timer)
        # A muted channel has no request in progress, so `on_close` is free for this.
        channel.on_close = lambda: self._forget(channel)

    def _on_due(self, channel: Connection) -> None:
        """Release channels in steps: thousands that share a budget may be due at once."""
        self._due.append(channel)
        if len(self._due) == 1:
            self._start(self._release_due(), 0)

    def _release_due(self) -> Iterator[None]:
        count = 0
        while self._due:
            # It stays in the queue until it is released, so that nobody starts this again
            # meanwhile.
            self._release(self._due[0])
            self._due.popleft()
            count += 1
            if count % _RELEASED_PER_STEP == 0:
                yield

    def _release(self, channel: Connection) -> None:
        mute = self._mutes.pop(channel, None)
        if mute is not None:
            channel.on_close = None
            mute.account.muted_channels -= 1
            if mute.until_ms - mute.since_ms >= TOLD_MS:
                self.connected.on_mute_over(
                    channel,
                    mute.account.kind,
                    came=channel.arrived_bytes() > mute.arrived_bytes,
                    waited=mute.arrived_bytes > 0 or channel.kept_bytes > 0,
                )
            channel.unmute(MuteReason.QUOTA)

    def _forget(self, channel: Connection) -> None:
        mute = self._mutes.pop(channel, None)
        if mute is not None:
            mute.timer.cancel()
            mute.account.muted_channels -= 1
