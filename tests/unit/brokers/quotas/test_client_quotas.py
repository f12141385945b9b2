"""The quota core with a clock of its own: budgets, delays, what it tells, and its bounds."""

import math

import pytest

from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST


def quotas_with(
    entity: QuotaEntity, kind: QuotaKind, limit: float, credit: WindowCredit = WindowCredit.ELAPSED
) -> ClientQuotas:
    quotas = ClientQuotas(WindowOptions(credit=credit))
    quotas.set_quota(entity, kind, limit, 0)
    return quotas


def test_a_client_below_its_limit_does_not_wait():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    assert quotas.record(PRODUCE, "u", "app", 1_000, 0) == 0
    assert quotas.record(PRODUCE, "u", "app", 1, 0) == 1  # 1 B/s over 1000 for 1 s
    assert quotas.record(FETCH, "u", "app", 1e9, 0) == 0
    assert quotas.record(PRODUCE, "u", "other", 1e9, 0) == 0


def test_the_delay_to_the_millisecond():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    assert quotas.record(PRODUCE, "u", "app", 6_000, 0) == 5_000
    assert quotas.delay_ms(PRODUCE, "u", "app", 1_700) == 4_300
    assert quotas.record(PRODUCE, "u", "app", 500, 1_700) == 4_800
    assert quotas.delay_ms(PRODUCE, "u", "nobody", 1_700) == 0


def test_the_delay_to_the_millisecond_with_kafkas_credit():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0, WindowCredit.KAFKA)
    assert quotas.record(PRODUCE, "u", "app", 15_000, 0) == 5_000
    assert quotas.delay_ms(PRODUCE, "u", "app", 700) == 4_300
    assert quotas.record(PRODUCE, "u", "app", 500, 700) == 4_800


def test_a_request_delay_is_at_most_one_window():
    quotas = quotas_with(QuotaEntity(None, "app"), REQUEST, 10.0)
    assert quotas.record(REQUEST, "u", "app", 11.0, 0) == 100
    assert quotas.record(REQUEST, "u", "app", 500.0, 0) == 1_000
    assert quotas.delay_ms(REQUEST, "u", "app", 0) == 1_000


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
def test_who_shares_a_budget(entity, first, second, is_shared):
    quotas = quotas_with(entity, PRODUCE, 1_000.0)
    assert quotas.record(PRODUCE, *first, 1_000, 0) == 0
    assert (quotas.record(PRODUCE, *second, 500, 0) > 0) is is_shared


def test_a_changed_limit_counts_from_the_next_request_on():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    quotas.record(PRODUCE, "u", "app", 2_000, 0)
    quotas.set_quota(QuotaEntity(None, "app"), PRODUCE, 2_500.0, 5)
    assert quotas.delay_ms(PRODUCE, "u", "app", 5) == 0
    quotas.replace_quotas({QuotaEntity("u", None): {PRODUCE: 100.0}}, 6)
    assert quotas.resolve(PRODUCE, "u", "app").rule == "user"
    # Another rule means another budget, which begins empty.
    assert quotas.record(PRODUCE, "u", "app", 50, 6) == 0
    quotas.replace_quotas({}, 7)
    assert quotas.record(PRODUCE, "u", "app", 1e9, 7) == 0


def test_what_is_not_sent_is_not_counted():
    quotas = quotas_with(QuotaEntity(None, "app"), FETCH, 1_000.0)
    assert quotas.record(FETCH, "u", "app", 3_000, 0) == 2_000
    quotas.unrecord(FETCH, "u", "app", 3_000, 0)
    assert quotas.record(FETCH, "u", "app", 900, 1) == 0
    (usage,) = quotas.drain_interval(1_000)
    assert (usage.usage, usage.requests) == (900, 2)


@pytest.mark.parametrize(
    ("credit", "most"), [(WindowCredit.ELAPSED, 250), (WindowCredit.KAFKA, 10_000)]
)
def test_how_much_one_fetch_may_take(credit, most):
    quotas = quotas_with(QuotaEntity(None, "app"), FETCH, 1_000.0, credit)
    assert quotas.max_value_in_window(FETCH, "u", "app") == most
    assert quotas.max_value_in_window(FETCH, "u", "other") == math.inf


def test_an_interval_tells_what_happened_in_it():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    delay_ms = quotas.record(PRODUCE, "u", "app", 2_500, 100)
    quotas.on_throttled(PRODUCE, "u", "app", delay_ms, 100)
    quotas.record(PRODUCE, "u", "free", 7, 100)
    first, free = quotas.drain_interval(1_000)
    assert (first.client_id, first.rule, first.limit) == ("app", "client", 1_000.0)
    assert (first.usage, first.requests, first.throttled) == (2_500, 1, 1)
    assert (first.throttle_ms, first.throttle_ms_max) == (1_500, 1_500)
    assert (first.muted_ms, first.mute_left_ms) == (900, 600)
    assert (free.client_id, free.rule, free.limit) == ("free", None, None)
    assert free.rate == pytest.approx(7.0)
    # Still throttled, so told again; then over, so told no more.
    (second,) = quotas.drain_interval(2_000)
    assert (second.requests, second.muted_ms, second.mute_left_ms) == (0, 600, 0)
    assert quotas.drain_interval(3_000) == []


def test_mutes_of_several_channels_that_overlap_count_once():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    quotas.on_throttled(PRODUCE, "u", "app", 300, 0)
    quotas.on_throttled(PRODUCE, "u", "app", 300, 100)
    quotas.on_throttled(PRODUCE, "u", "app", 100, 800)
    (usage,) = quotas.drain_interval(1_000)
    assert (usage.throttled, usage.throttle_ms, usage.muted_ms) == (3, 700, 500)


def test_a_mute_that_is_lifted_early_ends():
    quotas = quotas_with(QuotaEntity(None, "app"), PRODUCE, 1_000.0)
    quotas.on_throttled(PRODUCE, "u", "app", 5_000, 0)
    quotas.on_limits_eased(PRODUCE, "u", "app", 400, 400)
    (usage,) = quotas.drain_interval(1_000)
    assert (usage.muted_ms, usage.mute_left_ms) == (400, 0)


def test_explain_says_which_rule_and_why():
    quotas = quotas_with(QuotaEntity(None, DEFAULT), PRODUCE, 1_000.0)
    quotas.record(PRODUCE, "u", "app", 12_000, 0)
    quotas.on_throttled(PRODUCE, "u", "app", 11_000, 0)
    produce, fetch, request = quotas.explain("u", "app", 10_500)
    assert (produce.kind, fetch.kind, request.kind) == (PRODUCE, FETCH, REQUEST)
    assert (produce.rule, produce.limit, produce.is_seen) == ("default-client", 1_000.0, True)
    assert (produce.total, produce.measured_ms, produce.delay_ms) == (12_000, 10_500, 1_500)
    assert produce.mute_left_ms == 500
    assert produce.utilisation == pytest.approx(12_000 / 10.5 / 1_000)
    assert produce.arithmetic == (
        "12000 B / 10.500 s = 1142.86 B/s; (1142.86 - 1000) / 1000 x 10500 ms = 1500 ms"
    )
    assert (fetch.is_seen, fetch.rule, fetch.utilisation, fetch.delay_ms) == (False, None, None, 0)
    assert "no limit is set" in fetch.arithmetic


def test_explain_changes_nothing():
    asked, left_alone = (quotas_with(QuotaEntity(None, "app"), REQUEST, 5.0) for _ in range(2))
    for quotas in (asked, left_alone):
        quotas.record(REQUEST, "u", "app", 70.0, 0)
    assert "at most 1000 ms" in asked.explain(None, None, 10)[0].arithmetic
    for now_ms in (1_500, 9_999, 12_000):
        asked.explain("u", None, now_ms)
        assert asked.record(REQUEST, "u", "app", 9.0, now_ms) == left_alone.record(
            REQUEST, "u", "app", 9.0, now_ms
        )


def test_explain_of_all_finds_those_that_were_seen():
    quotas = ClientQuotas()
    quotas.record(PRODUCE, "u", "b", 1, 0)
    quotas.record(PRODUCE, "v", "a", 1, 0)
    quotas.record(FETCH, "u", "b", 1, 0)
    found = [(s.user, s.client_id, s.kind) for s in quotas.explain(None, None, 0)]
    assert found == [("u", "b", PRODUCE), ("u", "b", FETCH), ("v", "a", PRODUCE)]
    assert [s.client_id for s in quotas.explain(None, "a", 0)] == ["a"]
    assert quotas.explain(None, "nobody", 0) == []


def test_silent_clients_are_forgotten_after_an_hour():
    quotas = ClientQuotas()
    quotas.record(PRODUCE, "u", "gone", 1, 0)
    quotas.record(PRODUCE, "u", "here", 1, 1_800_000)
    quotas.drain_interval(1_800_000)
    quotas.drain_interval(3_599_999)
    assert {s.client_id for s in quotas.explain(None, None, 3_599_999)} == {"gone", "here"}
    quotas.drain_interval(3_700_000)
    assert {s.client_id for s in quotas.explain(None, None, 3_700_000)} == {"here"}
    assert len(quotas._budgets) == 1


def test_a_flood_of_client_ids_takes_no_more_than_its_share():
    quotas = ClientQuotas(clients_max=100)
    quotas.set_quota(QuotaEntity(None, "busy"), PRODUCE, 10.0, 0)
    for number in range(5_000):
        quotas.record(PRODUCE, "u", f"client-{number}", 1, number)
        busy_delay_ms = quotas.record(PRODUCE, "u", "busy", 10, number)
    assert len(quotas._clients) <= 100
    assert len(quotas._budgets) <= 100
    # Who is busy is not forgotten: a flood of others does not clear an account.
    assert busy_delay_ms > 1_000
