"""The quota core with a fake clock: budgets, delays, reports, and bounds on its memory."""

import math
import tracemalloc

import pytest

from cluster.model.clocks import MonotonicMs
from cluster.model.kept_names import kept_name
from cluster.model.quotas import DEFAULT, QuotaClient, QuotaEntity, QuotaKind
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ACCOUNTS_MAX, ClientQuotas
from cluster.quotas.sampled_rate import WindowCredit, WindowOptions
from tests.support.quota_accounts import delay_ms as present_delay_ms
from tests.support.quota_accounts import on_throttled, record

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST


def quotas_with(
    entity: QuotaEntity, kind: QuotaKind, limit: float, credit: WindowCredit = WindowCredit.ELAPSED
) -> ClientQuotas:
    quotas = ClientQuotas(WindowOptions(credit=credit))
    quotas.set_quota(entity, kind, limit)
    return quotas


def test_a_client_below_its_limit_does_not_wait():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    assert record(quotas, PRODUCE, "u", "app", 1_000, MonotonicMs(0)) == 0
    assert record(quotas, PRODUCE, "u", "app", 1, MonotonicMs(0)) == 1  # 1 B/s over 1000 for 1 s
    assert record(quotas, FETCH, "u", "app", 1e9, MonotonicMs(0)) == 0
    assert record(quotas, PRODUCE, "u", "other", 1e9, MonotonicMs(0)) == 0


def test_delay_is_exact_to_the_millisecond():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    assert record(quotas, PRODUCE, "u", "app", 6_000, MonotonicMs(0)) == 5_000
    assert present_delay_ms(quotas, PRODUCE, "u", "app", MonotonicMs(1_700)) == 4_300
    assert record(quotas, PRODUCE, "u", "app", 500, MonotonicMs(1_700)) == 4_800
    assert present_delay_ms(quotas, PRODUCE, "u", "nobody", MonotonicMs(1_700)) is None


def test_delay_is_exact_to_the_millisecond_with_kafkas_credit():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0, WindowCredit.KAFKA)
    assert record(quotas, PRODUCE, "u", "app", 15_000, MonotonicMs(0)) == 5_000
    assert present_delay_ms(quotas, PRODUCE, "u", "app", MonotonicMs(700)) == 4_300
    assert record(quotas, PRODUCE, "u", "app", 500, MonotonicMs(700)) == 4_800


def test_a_request_delay_is_at_most_one_window():
    quotas = quotas_with(QuotaEntity(None, "app"), REQUEST, 10.0)
    assert record(quotas, REQUEST, "u", "app", 11.0, MonotonicMs(0)) == 100
    assert record(quotas, REQUEST, "u", "app", 500.0, MonotonicMs(0)) == 1_000
    assert present_delay_ms(quotas, REQUEST, "u", "app", MonotonicMs(0)) == 1_000


@pytest.mark.parametrize(
    ("entity", "first", "second", "is_shared"),
    [
        (QuotaEntity("u", None), ("u", "a"), ("u", "b"), True),
        (QuotaEntity(DEFAULT, None), ("u", "a"), ("u", "b"), True),
        (QuotaEntity(DEFAULT, None), ("u", "a"), ("v", "a"), False),
        (QuotaEntity(None, "a"), ("u", "a"), ("v", "a"), True),
        (QuotaEntity(None, DEFAULT), ("u", "a"), ("v", "a"), True),
        (QuotaEntity(None, DEFAULT), ("u", "a"), ("u", "b"), False),
        (QuotaEntity("u", "a"), ("u", "a"), ("v", "a"), False),
        (QuotaEntity("u", DEFAULT), ("u", "a"), ("u", "b"), False),
        (QuotaEntity(DEFAULT, "a"), ("u", "a"), ("v", "a"), False),
        (QuotaEntity(DEFAULT, DEFAULT), ("u", "a"), ("u", "b"), False),
    ],
)
def test_budget_is_shared_according_to_the_rule(
    entity, first: tuple[str, str], second: tuple[str, str], is_shared
):
    quotas = quotas_with(entity, PRODUCE, 1_000.0)
    assert record(quotas, PRODUCE, *first, 1_000, MonotonicMs(0)) == 0
    assert (record(quotas, PRODUCE, *second, 500, MonotonicMs(0)) > 0) is is_shared


def test_a_changed_limit_counts_from_the_next_request_on():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    record(quotas, PRODUCE, "u", "app", 2_000, MonotonicMs(0))
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 2_500.0)
    assert present_delay_ms(quotas, PRODUCE, "u", "app", MonotonicMs(5)) == 0
    quotas.replace_quotas({QuotaEntity("u", None): {PRODUCE: 100.0}})
    assert quotas.resolve(PRODUCE, "u", "app").rule == "user"
    # Another rule means another budget, which begins empty.
    assert record(quotas, PRODUCE, "u", "app", 50, MonotonicMs(6)) == 0
    quotas.replace_quotas({})
    assert record(quotas, PRODUCE, "u", "app", 1e9, MonotonicMs(7)) == 0


def test_take_back_undoes_a_record():
    quotas = quotas_with(QuotaEntity(None, "app"), FETCH, 1_000.0)
    assert record(quotas, FETCH, "u", "app", 3_000, MonotonicMs(0)) == 2_000
    quotas.account(FETCH, QuotaClient("u", "app"), MonotonicMs(0)).take_back(3_000, MonotonicMs(0))
    assert record(quotas, FETCH, "u", "app", 900, MonotonicMs(1)) == 0
    ((usage, _),) = quotas.drain_interval(MonotonicMs(1_000))
    assert (usage.usage, usage.requests) == (900, 2)


@pytest.mark.parametrize(
    ("credit", "most"), [(WindowCredit.ELAPSED, 250), (WindowCredit.KAFKA, 10_000)]
)
def test_fetch_bytes_max_follows_the_limit(credit, most):
    quotas = quotas_with(QuotaEntity(None, "app"), FETCH, 1_000.0, credit)
    assert ClientAccounts(quotas, "u", "app").fetch_bytes_max(MonotonicMs(0)) == most
    assert ClientAccounts(quotas, "u", "other").fetch_bytes_max(MonotonicMs(0)) == math.inf


def test_drained_interval_has_the_usage_of_its_time():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    delay_ms = record(quotas, PRODUCE, "u", "app", 2_500, MonotonicMs(100))
    on_throttled(quotas, PRODUCE, "u", "app", delay_ms, MonotonicMs(100))
    record(quotas, PRODUCE, "u", "free", 7, MonotonicMs(100))
    (first, first_standing), (free, _) = quotas.drain_interval(MonotonicMs(1_000))
    assert (first.client_id, first.rule, first.limit) == ("app", "client", 1_000.0)
    assert (first.usage, first.requests, first.throttled) == (2_500, 1, 1)
    assert (first.throttle_ms, first.throttle_ms_max) == (1_500, 1_500)
    assert (first.muted_ms, first_standing.mute_left_ms) == (900, 600)
    assert (free.client_id, free.rule, free.limit) == ("free", None, None)
    assert free.rate == pytest.approx(7.0)
    # Still throttled, so it is reported again; then not, so it is not reported any more.
    ((second, second_standing),) = quotas.drain_interval(MonotonicMs(2_000))
    assert (second.requests, second.muted_ms, second_standing.mute_left_ms) == (0, 600, 0)
    assert quotas.drain_interval(MonotonicMs(3_000)) == []


def test_mutes_of_several_channels_that_overlap_count_once():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    on_throttled(quotas, PRODUCE, "u", "app", 300, MonotonicMs(0))
    on_throttled(quotas, PRODUCE, "u", "app", 300, MonotonicMs(100))
    on_throttled(quotas, PRODUCE, "u", "app", 100, MonotonicMs(800))
    ((usage, _),) = quotas.drain_interval(MonotonicMs(1_000))
    assert (usage.throttled, usage.throttle_ms, usage.muted_ms) == (3, 700, 500)


def test_mute_ends_when_limits_are_eased():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    on_throttled(quotas, PRODUCE, "u", "app", 5_000, MonotonicMs(0))
    quotas.account(PRODUCE, QuotaClient("u", "app"), MonotonicMs(400)).on_limits_eased(
        MonotonicMs(400), MonotonicMs(400)
    )
    ((usage, state),) = quotas.drain_interval(MonotonicMs(1_000))
    assert (usage.muted_ms, state.mute_left_ms) == (400, 0)


def test_state_has_the_matched_rule_and_the_delay():
    quotas = quotas_with(QuotaEntity(None, DEFAULT), PRODUCE, 1_000.0)
    record(quotas, PRODUCE, "u", "app", 12_000, MonotonicMs(0))
    on_throttled(quotas, PRODUCE, "u", "app", 11_000, MonotonicMs(0))
    produce = quotas.state_of(PRODUCE, "u", "app", MonotonicMs(10_500))
    assert (produce.rule, produce.limit) == ("default-client", 1_000.0)
    assert (produce.measured_ms, produce.delay_ms, produce.mute_left_ms) == (10_500, 1_500, 500)
    assert produce.rate == pytest.approx(12_000 / 10.5)
    assert quotas.state_of(FETCH, "u", "app", MonotonicMs(10_500)) is None


def test_state_of_changes_nothing():
    asked, left_alone = (quotas_with(QuotaEntity(None, "app"), REQUEST, 5.0) for _ in range(2))
    for quotas in (asked, left_alone):
        record(quotas, REQUEST, "u", "app", 70.0, MonotonicMs(0))
    for now_ms in (1_500, 9_999, 12_000):
        asked.state_of(REQUEST, "u", "app", MonotonicMs(now_ms))
        delays = {
            record(each, REQUEST, "u", "app", 9.0, MonotonicMs(now_ms))
            for each in (asked, left_alone)
        }
        assert len(delays) == 1


def is_known(quotas: ClientQuotas, client_id: str, now_ms: MonotonicMs) -> bool:
    return quotas.state_of(PRODUCE, "u", client_id, now_ms) is not None


def test_idle_client_is_forgotten_once_its_samples_are_obsolete():
    quotas = ClientQuotas()
    record(quotas, PRODUCE, "u", "gone", 1, MonotonicMs(0))
    record(quotas, PRODUCE, "u", "here", 1, MonotonicMs(10_000))
    quotas.expire(MonotonicMs(60_000))
    assert is_known(quotas, "gone", MonotonicMs(60_000)), "its usage was not told yet"
    quotas.drain_interval(MonotonicMs(10_000))
    quotas.expire(MonotonicMs(11_999))
    assert is_known(quotas, "gone", MonotonicMs(11_999))
    quotas.expire(MonotonicMs(12_000))
    assert not is_known(quotas, "gone", MonotonicMs(12_000))
    assert is_known(quotas, "here", MonotonicMs(12_000))
    assert quotas.state_of_silent(PRODUCE, "u", "gone").rate == 0


def test_client_with_a_debt_is_not_forgotten():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    record(quotas, PRODUCE, "u", "app", 40_000, MonotonicMs(0))
    quotas.drain_interval(MonotonicMs(0))
    for now_ms in (12_000, 38_000):
        quotas.expire(MonotonicMs(now_ms))
        assert is_known(quotas, "app", MonotonicMs(now_ms))
    quotas.expire(MonotonicMs(39_000))
    assert not is_known(quotas, "app", MonotonicMs(39_000))


def test_drain_returns_the_clients_that_wait_longest_first():
    quotas = ClientQuotas()
    for number in range(10):
        record(quotas, PRODUCE, "u", f"client-{number}", 1, MonotonicMs(0))
    first = quotas.drain_interval(MonotonicMs(1), 4)
    record(quotas, PRODUCE, "u", "client-0", 5, MonotonicMs(2))
    record(quotas, PRODUCE, "u", "client-9", 5, MonotonicMs(2))
    second = quotas.drain_interval(MonotonicMs(3), 6)
    last = quotas.drain_interval(MonotonicMs(4), 6)
    told = [[(usage.client_id, usage.usage) for usage, _ in each] for each in (first, second, last)]
    assert [client for client, _ in told[0]] == [f"client-{number}" for number in range(4)]
    assert told[1][-1] == ("client-9", 6)
    assert told[2] == [("client-0", 5)]


def test_accounts_are_bounded_by_recent_clients():
    quotas = ClientQuotas()
    for number in range(5_000):
        now_ms = MonotonicMs(number * 20)
        record(quotas, PRODUCE, "u", f"client-{number}", 1, now_ms)
        quotas.drain_interval(now_ms)
    known = sum(is_known(quotas, f"client-{number}", now_ms) for number in range(5_000))
    # Twelve seconds of fifty a second, and those that were not checked again.
    assert known < 1.5 * 12 * 50


@pytest.mark.slow
def test_account_uses_bounded_memory():
    """A hundred megabytes suffice for the maximum number of accounts."""
    quotas = quotas_with(QuotaEntity(None, DEFAULT), PRODUCE, 1_000.0)
    clients = [(f"user-{number % 1_000}", f"client-{number}") for number in range(5_000)]
    tracemalloc.start()
    try:
        for user, client_id in clients:
            ClientAccounts(quotas, user, client_id).on_produced(50, 1_000, MonotonicMs(0))
        current_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current_bytes / (2 * len(clients)) * ACCOUNTS_MAX < 100_000_000


def test_the_memory_of_client_ids_is_bounded_whatever_their_number():
    quotas = ClientQuotas(names_max_bytes=100_000)
    for number in range(2_000):
        accounts = ClientAccounts(quotas, "u", f"{number}-" + "x" * 30_000)
        accounts.on_produced(50, 1_000, MonotonicMs(number))
    assert quotas.held_bytes < 100_000 * 2 * 3  # an account takes twice as much as its name
    assert is_known(quotas, kept_name("1999-" + "x" * 30_000), MonotonicMs(2_000))


@pytest.mark.slow
def test_expire_share_checks_a_share_of_many_accounts():
    quotas = ClientQuotas()
    for number in range(40_000):
        record(quotas, PRODUCE, "u", f"{number}", 1, MonotonicMs(0))
    quotas.drain_interval(MonotonicMs(0))
    looks = 0
    while quotas.held_bytes:
        assert len(list(quotas.expire_share(MonotonicMs(20_000)))) <= 3
        looks += 1
    assert looks < 128  # 157 of them, if each checked 256 accounts


def test_without_a_rule_users_of_one_client_id_are_measured_each_by_itself():
    quotas = ClientQuotas()
    record(quotas, PRODUCE, "alice", "app", 1_000, MonotonicMs(0))
    record(quotas, PRODUCE, "bob", "app", 3_000, MonotonicMs(0))
    rates = {
        user: quotas.state_of(PRODUCE, user, "app", MonotonicMs(1_000)).rate
        for user in ("alice", "bob")
    }
    assert rates == {"alice": 1_000, "bob": 3_000}


def test_holder_of_a_forgotten_account_gets_another():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    accounts = ClientAccounts(quotas, "u", "app")
    accounts.on_produced(0, 1, MonotonicMs(0))
    quotas.drain_interval(MonotonicMs(0))
    quotas.expire(MonotonicMs(3_700_000))
    assert not is_known(quotas, "app", MonotonicMs(3_700_000))
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 10.0)
    delay = accounts.on_produced(0, 20, MonotonicMs(3_700_000))
    assert delay is not None
    assert (delay.ms, delay.account.limit) == (1_000, 10.0)


def test_a_flood_of_client_ids_takes_no_more_than_its_share():
    quotas = ClientQuotas(accounts_max=100)
    quotas.set_quota(QuotaEntity(None, "busy"), PRODUCE, 10.0)
    for number in range(5_000):
        record(quotas, PRODUCE, "u", f"client-{number}", 1, MonotonicMs(number))
        busy_delay_ms = record(quotas, PRODUCE, "u", "busy", 10, MonotonicMs(number))
    known = sum(is_known(quotas, f"client-{number}", MonotonicMs(5_000)) for number in range(5_000))
    assert known <= 100
    # Accounts that have not been reported yet do not pile up either.
    assert quotas.active_count <= 2 * 100
    # Busy clients are not forgotten: a flood of others does not clear an account.
    assert busy_delay_ms > 1_000
