"""Enforcement with a fake clock: the longer delay, mutes, early release, closing."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from cluster.brokers.network.connection import MuteReason
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import QuotaClient, QuotaEntity, QuotaKind
from cluster.quotas.account import Delay
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas
from tests.support.quota_accounts import run_to_end

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST


class Timer:
    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    def __init__(self) -> None:
        self.now_ms = MonotonicMs(0)
        self.timers: list[Timer] = []

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(deadline_ms, callback))
        return self.timers[-1]

    def turn_to(self, now_ms: int) -> None:
        self.now_ms = MonotonicMs(now_ms)
        for timer in list(self.timers):
            if timer.callback is not None and timer.deadline_ms <= now_ms:
                callback, timer.callback = timer.callback, None
                callback()

    def pending(self) -> list[int]:
        return [timer.deadline_ms for timer in self.timers if timer.callback is not None]


class FakeChannel:
    """Records the calls in order."""

    def __init__(self, *, closes_on_answer: bool = False) -> None:
        self.is_open = True
        self.arrived = 0
        self.kept_bytes = 0
        self.comes_at_once = 0
        """Bytes that the client sends as soon as it has its response."""
        self.software = ("", "")
        self.done: list[object] = []
        self.on_close: Callable[[], None] | None = None
        self._closes_on_answer = closes_on_answer

    def mute(self, reason: int) -> None:
        self.done.append(("mute", reason))

    def unmute(self, reason: int) -> None:
        self.done.append(("unmute", reason))

    def arrived_bytes(self) -> int:
        return self.arrived

    def respond(self, buffers: object) -> None:
        self.done.append(("answer", buffers))
        self.on_close = None
        self.arrived += self.comes_at_once
        if self._closes_on_answer:
            self.is_open = False


def a_channel(*, closes_on_answer: bool = False) -> Any:
    return FakeChannel(closes_on_answer=closes_on_answer)


def throttle_with(kind: QuotaKind, limit: float) -> tuple[QuotaThrottle, ClientQuotas, Timers]:
    quotas, timers = ClientQuotas(), Timers()
    quotas.set_quota(QuotaEntity(None, "app"), kind, limit)
    return QuotaThrottle(timers, ConnectedClients(), run_to_end), quotas, timers


def accounts_of(quotas: ClientQuotas) -> ClientAccounts:
    return ClientAccounts(quotas, "u", "app")


def a_delay(quotas: ClientQuotas, ms: int) -> Delay:
    return Delay(ms, quotas.account(PRODUCE, QuotaClient("u", "app"), MonotonicMs(0)))


def test_the_larger_delay_counts_not_the_sum():
    _, quotas, _ = throttle_with(PRODUCE, 1_000.0)
    quotas.set_quota(QuotaEntity(None, "app"), REQUEST, 10.0)
    # 10.5 % x seconds: 50 ms; 1 200 bytes: 200 ms.
    delay = accounts_of(quotas).on_produced(105_000, 1_200, MonotonicMs(0))
    assert (delay.ms, delay.account.kind) == (200, PRODUCE)
    _, quotas, _ = throttle_with(FETCH, 1_000.0)
    quotas.set_quota(QuotaEntity(None, "app"), REQUEST, 10.0)
    delay = accounts_of(quotas).on_fetched(105_000, 1_020, MonotonicMs(0))
    assert (delay.ms, delay.account.kind) == (50, REQUEST)


def test_bytes_that_a_throttled_fetch_does_not_send_are_not_counted():
    _, quotas, _ = throttle_with(FETCH, 1_000.0)
    accounts = accounts_of(quotas)
    assert accounts.on_fetched(10, 900, MonotonicMs(0)) is None
    delay = accounts.on_fetched(10, 600, MonotonicMs(0))
    assert (delay.ms, delay.sends_data) == (500, False)
    assert accounts.on_fetched(10, 100, MonotonicMs(0)) is None
    assert quotas.state_of(FETCH, "u", "app", MonotonicMs(0)).rate == 1_000


def test_a_fetch_larger_than_a_window_is_sent_once_nothing_is_owed_and_paid_for_afterwards():
    _, quotas, _ = throttle_with(FETCH, 1_000.0)
    accounts = accounts_of(quotas)
    delay = accounts.on_fetched(10, 6_000, MonotonicMs(0))
    assert (delay.ms, delay.sends_data) == (5_000, True)
    for now_ms in (1_000, 4_999):
        delay = accounts.on_fetched(10, 6_000, MonotonicMs(now_ms))
        assert (delay.ms, delay.sends_data) == (6_000 - now_ms, False)
    delay = accounts.on_fetched(10, 6_000, MonotonicMs(6_000))
    assert (delay.ms, delay.sends_data) == (6_000, True)


def test_a_large_fetch_waits_for_the_time_of_its_requests_too():
    _, quotas, _ = throttle_with(FETCH, 1_000.0)
    quotas.set_quota(QuotaEntity(None, "app"), REQUEST, 10.0)
    delay = accounts_of(quotas).on_fetched(105_000, 6_000, MonotonicMs(0))
    assert (delay.ms, delay.account.kind, delay.sends_data) == (50, REQUEST, False)


def test_a_channel_is_muted_before_it_is_answered_and_read_again_after_the_delay():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    throttle.respond(channel, [b"answer"], a_delay(quotas, 250))
    assert channel.done == [("mute", MuteReason.QUOTA), ("answer", [b"answer"])]
    assert throttle.muted_count == 1
    timers.turn_to(249)
    assert len(channel.done) == 2
    timers.turn_to(250)
    assert channel.done[2:] == [("unmute", MuteReason.QUOTA)]
    assert throttle.muted_count == 0
    ((usage, _),) = quotas.drain_interval(MonotonicMs(1_000))
    assert (usage.throttled, usage.throttle_ms, usage.muted_ms) == (1, 250, 250)


def test_producer_without_acks_is_throttled():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    throttle.respond(channel, None, a_delay(quotas, 250))
    assert channel.done == [("mute", MuteReason.QUOTA), ("answer", None)]
    assert timers.pending() == [250]


def test_a_closed_channel_cancels_its_timer():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    throttle.respond(channel, [], a_delay(quotas, 250))
    channel.on_close()
    assert timers.pending() == []
    assert throttle.muted_count == 0


def test_a_channel_that_closes_while_it_is_answered_has_no_timer():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    throttle.respond(a_channel(closes_on_answer=True), [], a_delay(quotas, 250))
    assert timers.pending() == []
    assert throttle.muted_count == 0
    gone = a_channel()
    gone.is_open = False
    throttle.respond(gone, [], a_delay(quotas, 250))
    assert gone.done == []


def test_muted_channels_are_counted_per_client():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    first, second = a_channel(), a_channel()

    def muted() -> int:
        return quotas.state_of(PRODUCE, "u", "app", timers.now_ms).muted_channels

    throttle.respond(first, [], accounts_of(quotas).on_produced(0, 11_000, MonotonicMs(0)))
    assert muted() == 1
    throttle.respond(second, [], accounts_of(quotas).on_produced(0, 1_000, MonotonicMs(0)))
    assert muted() == 2
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 2_000.0)
    limits_changed(throttle, quotas)
    assert muted() == 2
    second.on_close()
    assert muted() == 1
    timers.turn_to(max(timers.pending()))
    assert muted() == 0
    quotas.drain_interval(timers.now_ms)
    assert muted() == 0


def test_many_due_channels_are_released_in_steps():
    quotas, timers, jobs = ClientQuotas(), Timers(), list[Iterator[None]]()

    def start(job: Iterator[None], _steps_at_once: int) -> None:
        jobs.append(job)

    throttle = QuotaThrottle(timers, ConnectedClients(), start)
    delay = a_delay(quotas, 250)
    channels = [a_channel() for _ in range(100)]
    for channel in channels:
        throttle.respond(channel, [], delay)
    timers.turn_to(250)

    def released() -> int:
        return sum(channel.done[-1] == ("unmute", MuteReason.QUOTA) for channel in channels)

    counts = [released()]
    (job,) = jobs
    for _ in job:
        counts.append(released())
    assert counts[-1] < released() == 100
    assert max(b - a for a, b in pairwise(counts)) <= 16
    assert throttle.muted_count == 0


def limits_changed(throttle: QuotaThrottle, quotas: ClientQuotas) -> None:
    for _ in throttle.on_limits_changed(quotas.refreshed):
        pass


def test_waiting_channels_are_released_when_the_limit_is_removed():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    delay = accounts_of(quotas).on_produced(0, 11_000, MonotonicMs(0))
    throttle.respond(channel, [], delay)
    assert timers.pending() == [10_000]
    timers.turn_to(1_000)
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 2_750.0)
    limits_changed(throttle, quotas)
    assert timers.pending() == [1_000 + 3_000]
    quotas.replace_quotas({})
    limits_changed(throttle, quotas)
    timers.turn_to(1_000)
    assert channel.done[-1] == ("unmute", MuteReason.QUOTA)


def test_stricter_limit_does_not_lengthen_a_mute():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    throttle.respond(a_channel(), [], accounts_of(quotas).on_produced(0, 2_000, MonotonicMs(0)))
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 10.0)
    limits_changed(throttle, quotas)
    assert timers.pending() == [1_000]


def test_clients_that_send_while_muted_are_distinguished():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    throttle.connected.on_request_kind(channel, "u", "app")
    throttle.respond(channel, [], a_delay(quotas, 250))
    timers.turn_to(250)
    throttle.respond(channel, [], a_delay(quotas, 250))
    channel.arrived = 70
    timers.turn_to(500)
    throttle.respond(channel, [], a_delay(quotas, 5))  # too short to count
    timers.turn_to(505)
    client = throttle.connected.get("u", "app")
    assert client is not None
    assert client.pauses == {PRODUCE: Pauses(1, 1, 1, 1)}


def test_a_request_that_comes_as_soon_as_the_answer_leaves_is_not_taken_for_an_earlier_one():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    channel.comes_at_once = 70
    throttle.connected.on_request_kind(channel, "u", "app")
    throttle.respond(channel, [], a_delay(quotas, 250))
    timers.turn_to(250)
    client = throttle.connected.get("u", "app")
    assert client is not None
    assert client.pauses == {PRODUCE: Pauses(0, 1, 1, 1)}


def test_earlier_requests_are_no_evidence_against_a_client():
    throttle, quotas, timers = throttle_with(PRODUCE, 1_000.0)
    channel = a_channel()
    throttle.connected.on_request_kind(channel, "u", "app")
    channel.arrived = 70  # in the kernel, which may take no more
    throttle.respond(channel, [], a_delay(quotas, 250))
    timers.turn_to(250)
    channel.arrived, channel.kept_bytes = 0, 30  # received with the request that is answered
    throttle.respond(channel, [], a_delay(quotas, 250))
    timers.turn_to(500)
    client = throttle.connected.get("u", "app")
    assert client is not None
    assert client.pauses == {PRODUCE: Pauses(0, 0, 1, 0, 2)}
