"""The replication quota on a simulated clock: what may move when, and how exactly."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import MonotonicMs
from cluster.quotas.replication_quota import CHUNK_BYTES, Grant, ReplicationQuota
from cluster.quotas.sampled_rate import WindowOptions
from tests.support.examples import examples

MB = 1_000_000


def a_quota(limit: int | None) -> ReplicationQuota:
    quota = ReplicationQuota(WindowOptions(), MonotonicMs(0))
    quota.set_limit(limit, MonotonicMs(0))
    return quota


def moved(
    quota: ReplicationQuota, batch: int, until_ms: int, since_ms: int = 0, turn_ms: int = 1
) -> int:
    """The bytes that a replica with much to fetch gets; answers contain whole batches."""
    total = 0
    for now_ms in range(since_ms, until_ms, turn_ms):
        at_ms = MonotonicMs(now_ms)
        while grant := quota.take(at_ms):
            used = max(batch, grant.most_bytes // batch * batch)
            quota.settle(grant, used, at_ms)
            total += used
    return total


def test_the_rate_holds_within_two_percent_over_ten_seconds():
    for limit in (100_000, MB, 10 * MB, 50 * MB):
        for batch in (100, 1_000, 16 * 1024):
            assert 0.98 <= moved(a_quota(limit), batch, 10_000) / (10 * limit) <= 1.02


def taken(quota: ReplicationQuota, at_ms: MonotonicMs) -> Grant:
    grant = quota.take(at_ms)
    assert grant is not None
    return grant


def test_a_batch_above_what_may_move_is_paid_for_by_a_pause():
    quota = a_quota(100_000)
    at_ms = MonotonicMs(25)
    grant = taken(quota, at_ms)
    assert grant.most_bytes == 2_500
    quota.settle(grant, 1_000_000, at_ms)
    assert quota.wait_ms(at_ms) == 10_000
    assert quota.take(MonotonicMs(10_024)) is None
    assert taken(quota, MonotonicMs(10_025)).most_bytes == 2_500


def test_answers_that_are_under_way_are_expected_to_be_as_large_as_the_last_batch():
    quota = a_quota(MB)
    now_ms, moved_bytes = 0, 0
    while moved_bytes < 10 * MB:
        now_ms += 1
        # Three leaders are asked before any of them answers.
        grants = [quota.take(MonotonicMs(now_ms)) for _ in range(3)]
        for grant in filter(None, grants):
            quota.settle(grant, 64_000, MonotonicMs(now_ms))
            moved_bytes += 64_000
        assert moved_bytes <= MB * (now_ms + 100) / 1_000 + (3 if now_ms < 500 else 1) * 64_000
    assert 9_800 < now_ms < 10_200


def test_unused_bytes_are_given_back():
    quota = a_quota(MB)
    at_ms = MonotonicMs(25)
    grant = taken(quota, at_ms)
    assert quota.take(at_ms) is None
    quota.settle(grant, 1_000, at_ms)
    assert taken(quota, at_ms).most_bytes == grant.most_bytes - 1_000


def test_idle_time_gives_a_tenth_of_a_second_and_no_more():
    quota = a_quota(10 * MB)
    later_ms = 60_000
    assert moved(quota, 1_000, later_ms + 1, since_ms=later_ms) <= MB


def test_bytes_of_in_sync_replicas_count_and_owe_no_more_than_all_windows():
    quota = a_quota(MB)
    for now_ms in range(0, 1_000):
        quota.record(500, MonotonicMs(now_ms))
    assert moved(quota, 1_000, 11_000, since_ms=1_000) >= 9.9 * MB
    before = quota.rate(MonotonicMs(11_000))
    assert 0.9 * MB < before < 1.02 * MB
    quota.record(1_000 * MB, MonotonicMs(11_000))
    assert quota.wait_ms(MonotonicMs(11_000)) == 11_025


def test_a_limit_of_zero_lets_nothing_pass_until_it_changes():
    quota = a_quota(0)
    assert quota.take(MonotonicMs(100_000)) is None
    assert quota.wait_ms(MonotonicMs(100_000)) is None
    quota.set_limit(MB, MonotonicMs(100_000))
    assert quota.wait_ms(MonotonicMs(100_000)) == 25
    assert taken(quota, MonotonicMs(100_025)) == (25_000, 25_000)


def test_a_changed_limit_acts_at_once_and_forgives_what_is_owed():
    quota = a_quota(1_000)
    quota.settle(taken(quota, MonotonicMs(25)), 10 * MB, MonotonicMs(25))
    quota.set_limit(10 * MB, MonotonicMs(1_000))
    assert 0.98 <= moved(quota, 1_000, 11_000, since_ms=1_000) / (100 * MB) <= 1.02
    quota.set_limit(None, MonotonicMs(11_000))
    assert taken(quota, MonotonicMs(11_000)).most_bytes == CHUNK_BYTES


def test_the_rate_is_that_of_the_windows():
    quota = a_quota(MB)
    quota.record(500_000, MonotonicMs(0))
    assert quota.rate(MonotonicMs(1)) == 500_000  # the first window counts in full
    assert quota.rate(MonotonicMs(2_000)) == 250_000
    assert quota.rate(MonotonicMs(20_000)) == 0


@examples(100)
@given(
    st.sampled_from([100_000, 3 * MB, 50 * MB]),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 100_000), st.booleans()), max_size=80),
)
def test_no_pattern_gets_more_than_the_limit_and_a_batch(limit, pattern):
    """Each step waits, takes what it can get, and uses it for a batch, or not at all."""
    quota = a_quota(limit)
    now_ms = used_bytes = largest = 0
    for wait_ms, batch, is_used in pattern:
        now_ms += wait_ms
        at_ms = MonotonicMs(now_ms)
        grant = quota.take(at_ms)
        if grant is None:
            continue
        used = max(batch, grant.most_bytes) if is_used else 0
        quota.settle(grant, used, at_ms)
        used_bytes += used
        largest = max(largest, used)
    assert used_bytes <= limit * (now_ms + 100) / 1_000 + largest
