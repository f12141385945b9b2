"""`controller_mutation_rate` (KIP-599): strict and permissive, with a fake clock."""

import pytest

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.quotas.account import Delay
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.mutation_quota import MutationQuota
from cluster.quotas.sampled_rate import WindowOptions


class Bench:
    """A client that may change 2 partitions a second, and 20 at once."""

    def __init__(self, limit: float | None = 2.0) -> None:
        self.now_ms = MonotonicMs(0)
        self.quotas = ClientQuotas(mutation_options=WindowOptions(10, 1_000))
        self.quotas.set_quota(QuotaEntity("u", None), QuotaKind.MUTATION, limit)
        self.accounts = ClientAccounts(self.quotas, "u", "app")

    def request(self, *, is_strict: bool) -> MutationQuota:
        account = self.accounts.mutations(self.now_ms)
        return MutationQuota(account, lambda: self.now_ms, is_strict=is_strict)


def delay_ms(quota: MutationQuota) -> int:
    delay = quota.larger(None)
    return 0 if delay is None else delay.ms


def test_over_the_limit_a_strict_request_is_refused_topic_by_topic():
    bench = Bench()
    quota = bench.request(is_strict=True)
    quota.admit("first", 19)
    quota.admit("second", 5)  # whole, though only one token was left
    assert delay_ms(quota) == 0
    with pytest.raises(Refused) as refused:
        quota.admit("third", 1)
    assert refused.value.code is ErrorCode.throttling_quota_exceeded
    assert delay_ms(quota) == 2_000
    bench.now_ms = MonotonicMs(1_500)
    assert delay_ms(quota) == 500
    bench.now_ms = MonotonicMs(2_000)
    later = bench.request(is_strict=True)
    later.admit("third", 1)
    assert delay_ms(later) == 0


def test_a_permissive_request_is_let_through_and_waits_afterwards():
    bench = Bench()
    quota = bench.request(is_strict=False)
    quota.admit("first", 30)
    quota.admit("second", 2)
    assert delay_ms(quota) == 6_000
    strict = bench.request(is_strict=True)
    with pytest.raises(Refused):
        strict.admit("third", 1)


def test_a_topic_that_is_planned_again_is_counted_once():
    bench = Bench()
    quota = bench.request(is_strict=False)
    for _ in range(5):
        quota.admit("t", 20)
    assert delay_ms(quota) == 0


def test_without_a_limit_everything_is_admitted_and_counted():
    bench = Bench(limit=None)
    quota = bench.request(is_strict=True)
    for number in range(10):
        quota.admit(f"t{number}", 1_000)
    assert quota.larger(None) is None
    ((usage, _),) = bench.quotas.drain_interval(MonotonicMs(1_000))
    assert (usage.quota, usage.usage) == (QuotaKind.MUTATION, 10_000)


def test_larger_returns_the_longer_delay():
    bench = Bench()
    quota = bench.request(is_strict=False)
    quota.admit("t", 24)
    by_time = Delay(1_999, bench.accounts.mutations(bench.now_ms))
    assert quota.larger(by_time).ms == 2_000
    assert quota.larger(by_time._replace(ms=2_001)).ms == 2_001
