"""Enforces quotas as KIP-219 says: the answer goes at once and tells the delay, then the channel is
not read until the delay is over, so a client that ignores it is held back all the same.

Delays are computed by `ClientQuotas`. Traffic between brokers uses other links and is not limited.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from cluster.brokers.network.connection import Connection, MuteReason, Outgoing
from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.quotas.account import Account, Delay
from cluster.model.clocks import MonotonicMs


class Timers(Protocol):
    """What is used of the event loop."""

    now_ms: MonotonicMs

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` at the monotonic deadline."""
        ...


class _Mute(NamedTuple):
    account: Account
    until_ms: int
    timer: Cancellable


class QuotaThrottle:
    """One per broker, used by its thread only.

    Invariant: a channel is in `_mutes` exactly while it is open and muted for QUOTA.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._mutes: dict[Connection, _Mute] = {}

    @property
    def muted_count(self) -> int:
        """How many channels are muted for a quota (Kafka's delay queue size)."""
        return len(self._mutes)

    def respond(self, channel: Connection, buffers: "list[Outgoing] | None", delay: Delay) -> None:
        """Answer the channel's request, and then do not read from it for the delay."""
        if not channel.is_open:
            return
        # Muted before the answer leaves: else the next request would be taken up at once.
        channel.mute(MuteReason.QUOTA)
        channel.respond(buffers)
        now_ms = self._timers.now_ms
        delay.account.on_throttled(delay.ms, now_ms)
        if channel.is_open:
            self._hold(channel, delay.account, now_ms + delay.ms)

    def on_limits_changed(self) -> None:
        """Other limits are in force: channels that would wait less now are released sooner."""
        now_ms = self._timers.now_ms
        for channel, mute in list(self._mutes.items()):
            account = mute.account
            until_ms = now_ms if account.is_closed else now_ms + account.delay_ms(now_ms)
            if until_ms < mute.until_ms:
                mute.timer.cancel()
                account.on_limits_eased(MonotonicMs(until_ms), now_ms)
                self._hold(channel, account, until_ms)

    def _hold(self, channel: Connection, account: Account, until_ms: int) -> None:
        timer = self._timers.call_at(until_ms, lambda: self._release(channel))
        self._mutes[channel] = _Mute(account, until_ms, timer)
        # A muted channel has no request in progress, so `on_close` is free for this.
        channel.on_close = lambda: self._forget(channel)

    def _release(self, channel: Connection) -> None:
        if self._mutes.pop(channel, None) is not None:
            channel.on_close = None
            channel.unmute(MuteReason.QUOTA)

    def _forget(self, channel: Connection) -> None:
        mute = self._mutes.pop(channel, None)
        if mute is not None:
            mute.timer.cancel()
