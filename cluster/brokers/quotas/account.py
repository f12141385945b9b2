"""What one client uses under one kind of quota, and how long it has to wait."""

from typing import NamedTuple

from cluster.brokers.quotas.quota_table import Resolved
from cluster.brokers.quotas.sampled_rate import SampledRate
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import QuotaKind

AccountKey = tuple[QuotaKind, str, str]
"""Kind, user, client id."""


class Delay(NamedTuple):
    """How long a client has to wait, and the account whose limit asks for it."""

    ms: int
    account: "Account"
    sends_data: bool = False
    """Whether the answer has its data all the same: no window would ever admit it."""


class Account:
    """One user and client id under one kind of quota: its budget and its running interval.

    `budget` may be shared with others, see `quota_table`. `is_outdated` once a limit
    has changed, or `ClientQuotas` has forgotten the client: whoever holds it asks for it again.
    """

    __slots__ = (
        "active",
        "budget",
        "client_id",
        "counted_until_ms",
        "delay_ms_max",
        "is_outdated",
        "kind",
        "last_ms",
        "limit",
        "muted_channels",
        "muted_ms",
        "muted_until_ms",
        "requests",
        "rule",
        "throttle_ms",
        "throttle_ms_max",
        "throttled",
        "usage",
        "user",
    )

    def __init__(
        self,
        key: AccountKey,
        active: "dict[Account, None]",
        delay_ms_max: int | None,
        now_ms: MonotonicMs,
        resolved: Resolved,
        budget: SampledRate,
    ) -> None:
        """`active` collects accounts with usage to report."""
        self.kind, self.user, self.client_id = key
        self.active = active
        self.rule = resolved.rule
        """The level of precedence that `limit` comes from."""
        self.limit = resolved.limit
        self.budget = budget
        self.delay_ms_max = delay_ms_max
        self.is_outdated = False
        self.last_ms = now_ms
        self.muted_channels = 0
        """How many are muted now, by `QuotaThrottle`."""
        self.muted_until_ms = now_ms
        self.counted_until_ms = now_ms
        self.begin_interval()

    def begin_interval(self) -> None:
        """Count from zero."""
        self.usage = 0.0
        self.requests = 0
        self.throttled = 0
        self.throttle_ms = 0
        self.throttle_ms_max = 0
        self.muted_ms = 0

    # -- usage -------------------------------------------------------------------------------------

    def record(self, value: float, now_ms: MonotonicMs) -> int:
        """Count bytes, or percent of one thread x seconds; the delay in ms, 0 for none."""
        if not self.requests:
            self.active[self] = None
        self.requests += 1
        self.last_ms = now_ms
        self.usage += value
        budget = self.budget
        if now_ms - budget.start_ms < budget.window_ms:
            # What `budget.record` does in all but one request per window.
            budget.value += value
            budget.last_ms = now_ms
            budget.total += value
        else:
            budget.record(value, now_ms)
        if self.limit is None:
            return 0
        budget.unsettled += value
        return self.delay_ms(now_ms)

    def add(self, value: float, now_ms: MonotonicMs) -> None:
        """Count what was used outside of any request."""
        self.active[self] = None
        self.usage += value
        self._record(value, now_ms)

    def _record(self, value: float, now_ms: MonotonicMs) -> None:
        self.budget.record(value, now_ms)
        if self.limit is not None:
            self.budget.unsettled += value

    def take_back(self, value: float, now_ms: MonotonicMs) -> None:
        """Undo a `record` of the same time: the answer is sent without these bytes."""
        self.usage -= value
        self._record(-value, now_ms)

    def delay_ms(self, now_ms: MonotonicMs) -> int:
        """The delay in ms that a request which uses nothing would get now."""
        if self.limit is None:
            return 0
        delay_ms = self.budget.delay_ms(self.limit, now_ms)
        if self.delay_ms_max is not None and delay_ms > self.delay_ms_max:
            return self.delay_ms_max
        return delay_ms

    # -- muting ------------------------------------------------------------------------------------

    def on_throttled(self, delay_ms: int, now_ms: MonotonicMs) -> None:
        """A channel of this client is muted from now for `delay_ms`."""
        self.active[self] = None
        self.count_muted(now_ms)
        self.throttled += 1
        self.throttle_ms += delay_ms
        self.throttle_ms_max = max(self.throttle_ms_max, delay_ms)
        self.muted_until_ms = MonotonicMs(max(self.muted_until_ms, now_ms + delay_ms))

    def on_limits_eased(self, until_ms: MonotonicMs, now_ms: MonotonicMs) -> None:
        """The mute of this client was shortened, since its limit has changed."""
        self.count_muted(now_ms)
        self.muted_until_ms = until_ms

    def count_muted(self, now_ms: MonotonicMs) -> None:
        """Add what has passed of the time that its channels are muted."""
        end_ms = min(now_ms, self.muted_until_ms)
        if end_ms > self.counted_until_ms:
            self.muted_ms += end_ms - self.counted_until_ms
        self.counted_until_ms = now_ms

    # -- telling -----------------------------------------------------------------------------------

    def drain_interval(self, now_ms: MonotonicMs) -> QuotaUsage:
        """What was used since the last drain; the next interval begins."""
        self.count_muted(now_ms)
        usage = QuotaUsage(
            quota=self.kind,
            user=self.user,
            client_id=self.client_id,
            rule=self.rule,
            limit=self.limit,
            usage=self.usage,
            rate=self.budget.rate(now_ms),
            requests=self.requests,
            throttled=self.throttled,
            throttle_ms=self.throttle_ms,
            throttle_ms_max=self.throttle_ms_max,
            muted_ms=self.muted_ms,
        )
        self.begin_interval()
        return usage
