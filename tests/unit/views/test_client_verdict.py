"""The sentence that says why a client is or is not throttled."""

from typing import Any

import pytest

from cluster.metrics.stats_layout import QuotaRow
from cluster.model.quota_pauses import Pauses
from cluster.views.client_states import ALIVE, DEAD, SILENT, BrokerStats, ClientState
from cluster.views.client_verdict import Standing, client_verdict
from tests.support.broker_stats import broker_stats

MIB = 1024.0 * 1024.0
NOW_MS = 1_000_040
"""When `broker_stats` is read: 40 ms after it was written."""
IGNORES, HONORS = Pauses(0, 9, 1, 1), Pauses(9, 0, 1, 0)


def state(source: BrokerStats, muted_left_ms: int = 0, **fields: Any) -> ClientState:
    usual = {
        "quota": "produce",
        "rule": "client",
        "limit": MIB,
        "rate": 0.25 * MIB,
        "active_ms": NOW_MS - 100,
        "requests": 1_000,
    }
    return ClientState(
        source, QuotaRow(user="alice", client_id="c", **{**usual, **fields}), muted_left_ms
    )


def three(*states: str) -> list[BrokerStats]:
    return [broker_stats(broker, state=each) for broker, each in enumerate(states or [ALIVE] * 3)]


def told(brokers: list[BrokerStats], *states: ClientState) -> tuple[Standing, str]:
    verdict = client_verdict(states, brokers)
    return verdict.standing, verdict.sentence


def over(source: BrokerStats, **fields: Any) -> ClientState:
    return state(source, **{"rate": 1.06 * MIB, "delay_ms": 600, "pauses": IGNORES, **fields})


def test_throttled_on_all_brokers_names_the_worst_delay_and_the_mute() -> None:
    brokers = three()
    states = [over(brokers[0]), over(brokers[1], delay_ms=918), over(brokers[2], rate=1.01 * MIB)]
    assert told(brokers, *states) == (
        Standing.THROTTLED,
        "throttled on all 3 brokers: 1.06 MiB/s against a limit of 1.00 MiB/s; each answer is"
        " delayed by up to 918 ms; this client ignores the delay, so the broker mutes it",
    )


@pytest.mark.parametrize(
    ("living", "over_on", "where"),
    [
        (1, [0], "throttled: "),
        (2, [0, 1], "throttled on both brokers: "),
        (3, [1], "throttled on broker 1 only: "),
        (3, [0, 2], "throttled on 2 of 3 brokers (0, 2): "),
    ],
)
def test_throttled_says_on_which_brokers(living: int, over_on: list[int], where: str) -> None:
    brokers = three(*[ALIVE] * living)
    states = [over(each) if each.broker in over_on else state(each) for each in brokers]
    assert told(brokers, *states)[1].startswith(where)


@pytest.mark.parametrize(
    ("pauses", "words"),
    [
        (HONORS, "this client honors the delay"),
        (IGNORES, "this client ignores the delay, so the broker mutes it"),
        (Pauses(1, 1, 1, 1), "whether this client honors the delay is not known yet"),
    ],
)
def test_throttled_says_whether_the_client_pauses(pauses: Pauses, words: str) -> None:
    brokers = three(ALIVE)
    assert told(brokers, over(brokers[0], pauses=pauses))[1].endswith(f"; {words}")


def test_pauses_are_judged_over_all_brokers() -> None:
    brokers = three(ALIVE, ALIVE)
    two_each = [over(each, pauses=Pauses(0, 2, 1, 1)) for each in brokers]
    assert "ignores the delay" in told(brokers, *two_each)[1]


def test_throttled_by_request_time_and_by_bytes() -> None:
    brokers = three(ALIVE)
    request = {"quota": "request", "limit": 10.0, "rate": 12.3, "delay_ms": 900}
    words = told(brokers, over(brokers[0]), over(brokers[0], **request))[1]
    assert words.startswith(
        "throttled: 12.3 % of a thread's time against a limit of 10.0 %; each answer is delayed by"
        " up to 900 ms; "
    )
    assert words.endswith("; also throttled for writing")


def test_throttled_by_changes_of_topics() -> None:
    brokers = three(ALIVE)
    changes = {"quota": "mutation", "limit": 2.0, "rate": 5.0, "delay_ms": 4_000}
    assert told(brokers, over(brokers[0], **changes))[1].startswith(
        "throttled: 5.00 partitions/s against a limit of 2.00 partitions/s; further changes wait up"
        " to 4.0 s; "
    )


def test_throttled_below_the_limit_says_that_a_burst_is_owed() -> None:
    brokers = three(ALIVE)
    assert (
        "1.00 MiB/s, and a burst before is not paid off; "
        in (told(brokers, over(brokers[0], rate=0.5 * MIB))[1])
    )


def test_a_mute_throttles_without_a_delay_of_the_next_request() -> None:
    brokers = three(ALIVE)
    muted = over(brokers[0], muted_left_ms=250, delay_ms=0)
    assert "delayed by up to 250 ms" in told(brokers, muted)[1]


def test_a_shared_limit_says_who_shares_it() -> None:
    brokers = three(ALIVE)
    share = "limit of 1.00 MiB/s that all clients of this user share"
    assert f" against a {share}; " in told(brokers, over(brokers[0], rule="user"))[1]
    assert f"25 % of its {share}; " in told(brokers, state(brokers[0], rule="default-user"))[1]


def test_the_delay_of_a_shared_budget_does_not_throttle_an_idle_client() -> None:
    brokers = three(ALIVE)
    assert told(brokers, over(brokers[0], rule="user", active_ms=NOW_MS - 61_000)) == (
        Standing.IDLE,
        "idle: no request for 1 min 01 s, so nothing is throttled",
    )


def test_below_the_limit_says_the_share_and_what_is_free() -> None:
    brokers = three()
    states = [state(each, rate=0.1 * (1 + each.broker) * MIB) for each in brokers]
    assert told(brokers, *states) == (
        Standing.BELOW,
        "not throttled: it writes 307 KiB/s on broker 2, its busiest, 30 % of its limit of"
        " 1.00 MiB/s; 717 KiB/s free",
    )


def test_the_quota_nearest_to_its_limit_decides() -> None:
    brokers = three(ALIVE)
    request = state(brokers[0], quota="request", limit=10.0, rate=5.0)
    unlimited = state(brokers[0], quota="fetch", limit=None, rate=9 * MIB)
    assert told(brokers, state(brokers[0]), request, unlimited)[1] == (
        "not throttled: it takes 5.00 % of a thread's time, 50 % of its limit of 10.0 %;"
        " 5.00 % free"
    )


def test_near_the_limit_says_how_often_it_was_throttled() -> None:
    brokers = three(ALIVE)
    assert told(brokers, state(brokers[0], rate=0.95 * MIB, throttled=12)) == (
        Standing.NEAR,
        "not throttled, but near the limit: it writes 973 KiB/s, 95 % of its limit of 1.00 MiB/s;"
        " 51.2 KiB/s free; 12 of its 1,000 requests were throttled before",
    )


def test_no_limit_says_the_traffic_of_all_brokers() -> None:
    brokers = three(ALIVE, ALIVE)
    free = {"limit": None, "rule": None}
    states = [state(each, rate=2 * MIB, **free) for each in brokers]
    request = state(brokers[0], quota="request", rate=50.0, **free)
    assert told(brokers, request, *states) == (
        Standing.UNLIMITED,
        "not throttled: no limit applies to it; it writes 4.00 MiB/s",
    )
    assert told(brokers, state(brokers[0], rate=0.0, **free))[1] == (
        "not throttled: no limit applies to it"
    )


def test_a_limit_of_0() -> None:
    brokers = three(ALIVE)
    assert told(brokers, state(brokers[0], limit=0.0, rate=0.0))[1] == (
        "not throttled yet, but its limit for writing is 0 and admits nothing"
    )
    assert "1.06 MiB/s against a limit of 0; " in told(brokers, over(brokers[0], limit=0.0))[1]


def test_a_client_of_dead_brokers_only_is_not_throttled() -> None:
    brokers = three(ALIVE, DEAD, DEAD)
    assert told(brokers, over(brokers[1])) == (
        Standing.GONE,
        "not throttled: broker 1 is dead, and no other knows it; last figures 40 ms ago",
    )
    assert "brokers 1, 2 are dead" in told(brokers, over(brokers[1]), over(brokers[2]))[1]


def test_dead_brokers_do_not_count() -> None:
    brokers = three(ALIVE, DEAD, ALIVE)
    states = [over(each) for each in brokers]
    assert told(brokers, *states)[1].startswith("throttled on both brokers: ")


def test_the_figures_of_a_silent_broker_are_old() -> None:
    brokers = three(SILENT)
    assert told(brokers, state(brokers[0]))[1].endswith(
        "; these figures are 40 ms old because the broker does not respond"
    )


def test_a_limit_that_was_removed_during_the_mute() -> None:
    brokers = three(ALIVE)
    muted = over(brokers[0], limit=None, delay_ms=0, muted_left_ms=300)
    assert told(brokers, muted)[1].startswith("throttled: 1.06 MiB/s, with no limit any more; ")
