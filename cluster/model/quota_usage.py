"""What one client did under one kind of quota in one interval: the record that brokers write,
the rollup adds up and reports show. One statement of its fields for all of them.
"""

from dataclasses import dataclass

from cluster.model.quotas import QuotaKind


@dataclass(slots=True, kw_only=True)
class QuotaUsage:
    """Field names are those of the metric records (docs/metrics.md)."""

    quota: QuotaKind
    user: str
    client_id: str
    rule: str | None = None
    """The level of precedence that matched; None where no limit is set."""
    limit: float | None = None
    usage: float = 0.0
    """Bytes, or percent of one thread times seconds."""
    rate: float = 0.0
    """As the quota measured it, over its window, at the end: bytes/s, or percent of one thread."""
    requests: int = 0
    throttled: int = 0
    throttle_ms: int = 0
    throttle_ms_max: int = 0
    muted_ms: int = 0

    def add(self, later: "QuotaUsage") -> None:
        """Take in what the same client did in the interval after this one."""
        self.rule, self.limit, self.rate = later.rule, later.limit, later.rate
        self.usage += later.usage
        self.requests += later.requests
        self.throttled += later.throttled
        self.throttle_ms += later.throttle_ms
        self.throttle_ms_max = max(self.throttle_ms_max, later.throttle_ms_max)
        self.muted_ms += later.muted_ms
