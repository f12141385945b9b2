"""Which clients a list shows, and in which order."""

from typing import Any

from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.model.clocks import MonotonicMs
from cluster.views.client_states import ALIVE, DEAD, BrokerStats, ClientState
from cluster.views.client_verdict import IDLE_AFTER_MS
from cluster.views.listed_clients import (
    Hidden,
    has_users,
    hidden_words,
    is_idle,
    listed_clients,
)

NOW = MonotonicMs(1_000_000)


def state(client_id: str, quota: str = "produce", broker: int = 0, **fields: Any) -> ClientState:
    """A client under one quota; it has just sent a request, to a broker that is alive."""
    condition = fields.pop("state", ALIVE)
    source = BrokerStats(broker, condition, 0, Stats("broker", 1, 0, 0, NOW, {}, []))
    given = {"user": "ANONYMOUS", "active_ms": NOW, **fields}
    row = QuotaRow(quota=quota, client_id=client_id, **given)
    return ClientState(source, row, row.muted_left_ms(NOW))


def test_a_client_is_listed_once_with_its_quotas_of_all_brokers():
    (client,) = listed_clients(
        [
            state("app", "fetch", rate=10.0),
            state("app", broker=0, rate=20.0, limit=100.0),
            state("app", broker=1, rate=50.0, limit=100.0),
        ],
        NOW,
    )
    assert list(client.quotas) == ["produce", "fetch"]
    assert [each.source.broker for each in client.quotas["produce"]] == [1, 0]
    assert (client.utilization, client.bytes_per_s) == (0.5, 80.0)


def test_users_with_the_same_client_id_are_different_clients():
    found = listed_clients([state("app", user="alice"), state("app", user="bob")], NOW)
    assert [(each.user, each.client_id) for each in found] == [("alice", "app"), ("bob", "app")]


def test_throttled_clients_come_first_then_those_near_a_limit_then_by_rate():
    found = listed_clients(
        [
            state("slow", rate=1.0),
            state("fast", rate=9_000.0),
            state("nearer", rate=95.0, limit=100.0),
            state("near", rate=90.0, limit=100.0),
            state("muted", rate=0.5, limit=1.0, muted_until_ms=NOW + 5),
            state("delayed", "request", rate=2.0, limit=1.0, delay_ms=100),
            state("far", rate=89.0, limit=100.0),
        ],
        NOW,
    )
    assert [each.client_id for each in found] == [
        "delayed",
        "muted",
        "nearer",
        "near",
        "fast",
        "far",
        "slow",
    ]


def test_figures_of_a_dead_broker_do_not_make_a_client_throttled():
    (client,) = listed_clients(
        [state("app", rate=2.0, limit=1.0, delay_ms=9, state=DEAD), state("app", broker=1)], NOW
    )
    assert not client.is_throttled
    assert client.utilization is None
    assert client.bytes_per_s == 0.0


def test_own_tools_are_hidden_even_if_they_are_busy():
    (client,) = listed_clients([state("milena-topics", rate=5.0)], NOW)
    assert client.hidden is Hidden.OWN


def test_a_client_is_hidden_after_a_minute_without_a_request_on_any_broker():
    past = NOW - IDLE_AFTER_MS
    found = listed_clients(
        [
            state("gone", active_ms=past),
            state("gone", "request", broker=1, active_ms=past),
            state("heard elsewhere", active_ms=past),
            state("heard elsewhere", "request", broker=1, active_ms=past + 1),
        ],
        NOW,
    )
    assert {each.client_id: each.hidden for each in found} == {
        "gone": Hidden.IDLE,
        "heard elsewhere": None,
    }


def test_a_muted_client_is_not_idle():
    past = NOW - 2 * IDLE_AFTER_MS
    assert is_idle(state("app", active_ms=past, muted_until_ms=NOW).row, NOW)
    assert not is_idle(state("app", active_ms=past, muted_until_ms=NOW + 1).row, NOW)


def test_a_client_of_a_time_before_the_machine_was_restarted_is_idle():
    assert is_idle(state("app", active_ms=NOW + 1).row, NOW)


def test_only_quotas_with_a_rate_a_limit_or_a_mute_are_shown():
    (client,) = listed_clients(
        [
            state("app", "produce"),
            state("app", "fetch", limit=1.0),
            state("app", "request", rate=0.1),
            state("app", "mutation", muted_until_ms=NOW + 1),
        ],
        NOW,
    )
    assert list(client.shown_quotas) == ["fetch", "request", "mutation"]


def test_there_are_users_if_anybody_has_logged_in():
    assert not has_users([])
    assert not has_users(["ANONYMOUS", None])
    assert has_users(["ANONYMOUS", "alice"])


def test_hidden_clients_are_told_in_words():
    assert hidden_words([None]) == ""
    assert hidden_words([Hidden.IDLE, None]) == "1 more: 1 without a request for a minute"
    assert (
        hidden_words([Hidden.IDLE, Hidden.OWN, Hidden.IDLE])
        == "3 more: 1 of Milena's own, 2 without a request for a minute"
    )
