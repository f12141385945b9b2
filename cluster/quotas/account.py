"""A client's usage under one kind of quota, and its delay."""

from collections import deque
from typing import NamedTuple

from cluster.model.clocks import MonotonicMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import QuotaClient, QuotaKind
from cluster.quotas.quota_table import Resolved
from cluster.quotas.sampled_rate import SampledRate


class Delay(NamedTuple):
    """A client's delay, and the account whose limit requires it."""

    ms: int
    account: "Account"
    sends_data: bool = False
    """Whether the response has its data nevertheless, because no window would ever admit it."""


class _Mutes:
    """A client's mutes since the last drain; most clients have none."""

    __slots__ = (
        "counted_until_ms",
        "muted_ms",
        "throttle_ms",
        "throttle_ms_max",
        "throttled",
        "until_ms",
    )

    def __init__(self, now_ms: MonotonicMs) -> None:
        self.until_ms = now_ms
        self.counted_until_ms = now_ms
        self.begin_interval()

    def begin_interval(self) -> None:
        self.throttled = 0
        self.throttle_ms = 0
        self.throttle_ms_max = 0
        self.muted_ms = 0

    def count(self, now_ms: MonotonicMs) -> None:
        """Add the time that channels have been muted since the last call."""
        end_ms = min(now_ms, self.until_ms)
        if end_ms > self.counted_until_ms:
            self.muted_ms += end_ms - self.counted_until_ms
        self.counted_until_ms = now_ms


class Account:
    """One user and client id under one kind of quota: its budget and its current interval.

    `budget` may be shared with others, see `quota_table`. `is_outdated` once a limit has changed or
    `ClientQuotas` has forgotten the client; then the holder must ask for the account again.
    """

    __slots__ = (
        "_mutes",
        "active",
        "budget",
        "client",
        "is_active",
        "is_outdated",
        "kind",
        "last_ms",
        "limit",
        "muted_channels",
        "requests",
        "rule",
        "usage",
    )

    def __init__(
        self,
        kind: QuotaKind,
        client: QuotaClient,
        active: "deque[Account]",
        now_ms: MonotonicMs,
        resolved: Resolved,
        budget: SampledRate,
    ) -> None:
        """`active` collects accounts with something to report, each once."""
        self.kind = kind
        self.client = client
        self.active = active
        self.is_active = False
        self.rule = resolved.rule
        """The level of precedence that `limit` comes from."""
        self.limit = resolved.limit
        self.budget = budget
        self.is_outdated = False
        self.last_ms = now_ms
        self.muted_channels = 0
        """How many are muted now; maintained by `QuotaThrottle`."""
        self.usage = 0.0
        self.requests = 0
        self._mutes: _Mutes | None = None

    @property
    def delay_ms_max(self) -> int | None:
        """The upper bound of a delay; None without a bound."""
        return self.budget.options.delay_ms_max

    # -- usage -------------------------------------------------------------------------------------

    def record(self, value: float, now_ms: MonotonicMs) -> int:
        """Count bytes, or percent of one thread x seconds; returns the delay in ms, 0 for none."""
        if not self.is_active:
            self._activate()
        self.requests += 1
        self.last_ms = now_ms
        usage = self.usage
        # The first value is kept as an object, here and in the budget: most clients have no other.
        self.usage = usage + value if usage else value
        budget = self.budget
        if now_ms - budget.start_ms < budget.options.window_ms:
            # What `budget.record` does in all but one request per window.
            budget.value += value
            budget.last_ms = now_ms
        else:
            budget.record(value, now_ms)
        if self.limit is None:
            return 0
        budget.unsettled += value
        return self.delay_ms(now_ms)

    def add(self, value: float, now_ms: MonotonicMs) -> None:
        """Count usage outside of any request."""
        if not self.is_active:
            self._activate()
        self.usage += value
        self._record(value, now_ms)

    def _activate(self) -> None:
        self.is_active = True
        self.active.append(self)

    def _record(self, value: float, now_ms: MonotonicMs) -> None:
        self.budget.record(value, now_ms)
        if self.limit is not None:
            self.budget.unsettled += value

    def take_back(self, value: float, now_ms: MonotonicMs) -> None:
        """Undo a `record` of the same time, because the response is sent without these bytes."""
        self.usage -= value
        self._record(-value, now_ms)

    def delay_ms(self, now_ms: MonotonicMs) -> int:
        """The delay in ms of a request that uses nothing."""
        if self.limit is None:
            return 0
        budget = self.budget
        delay_ms = budget.delay_ms(self.limit, now_ms)
        most_ms = budget.options.delay_ms_max
        return delay_ms if most_ms is None or delay_ms <= most_ms else most_ms

    # -- muting ------------------------------------------------------------------------------------

    @property
    def muted_until_ms(self) -> int:
        """When the last mute of this client ends; 0 if none began since the last drain."""
        return 0 if self._mutes is None else self._mutes.until_ms

    def on_throttled(self, delay_ms: int, now_ms: MonotonicMs) -> None:
        """Note that a channel of this client is muted for `delay_ms` from now on."""
        mutes = self._counted_mutes(now_ms)
        mutes.throttled += 1
        mutes.throttle_ms += delay_ms
        mutes.throttle_ms_max = max(mutes.throttle_ms_max, delay_ms)
        mutes.until_ms = MonotonicMs(max(mutes.until_ms, now_ms + delay_ms))

    def on_limits_eased(self, until_ms: MonotonicMs, now_ms: MonotonicMs) -> None:
        """Note that the mute of this client was shortened, since its limit has changed."""
        self._counted_mutes(now_ms).until_ms = until_ms

    def _counted_mutes(self, now_ms: MonotonicMs) -> _Mutes:
        if not self.is_active:
            self._activate()
        if self._mutes is None:
            self._mutes = _Mutes(now_ms)
        self._mutes.count(now_ms)
        return self._mutes

    # -- telling -----------------------------------------------------------------------------------

    def drain_interval(self, now_ms: MonotonicMs) -> QuotaUsage:
        """The usage since the last drain; begins the next interval."""
        usage = QuotaUsage(
            quota=self.kind,
            user=self.client.user,
            client_id=self.client.client_id,
            rule=self.rule,
            limit=self.limit,
            usage=float(self.usage),
            rate=self.budget.rate(now_ms),
            requests=self.requests,
        )
        mutes = self._mutes
        if mutes is not None:
            mutes.count(now_ms)
            usage.throttled = mutes.throttled
            usage.throttle_ms = mutes.throttle_ms
            usage.throttle_ms_max = mutes.throttle_ms_max
            usage.muted_ms = mutes.muted_ms
            mutes.begin_interval()
            if mutes.until_ms <= now_ms:
                self._mutes = None
        self.usage = 0.0
        self.requests = 0
        return usage
