"""The answer to another size equals the model behind the history."""

import json
import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.capacity.busy_model import Load, fitted
from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.capacity.scenario import Scenario
from cluster.analytics.capacity.throttling import throttled
from cluster.analytics.capacity.what_if import WhatIf, what_if
from cluster.analytics.windows.kinds import BROKER, QUOTA
from cluster.model.errors import UserError
from cluster.tools.capacity.what_if_text import what_if_text
from tests.support.capacity_history import (
    DAY_S,
    GIB,
    HOUR_S,
    MIB,
    THURSDAY,
    Row,
    Truth,
    history,
    rate_bucket,
)

WEEK = Truth()


@pytest.fixture(scope="module")
def week() -> WindowHistory:
    return history(WEEK.rows())


def text_of(found: WhatIf) -> str:
    json.dumps(found.as_json(), allow_nan=False)
    return "\n".join(what_if_text(found, "here", 10, explain=True))


def high_share(rate_factor: float, share: float, day: float = 0.0) -> float:
    """The 90th percentile of a broker's busy share with this share of the traffic.

    The whole week is taken as long after its start as it is, and then this many days more.
    """
    found = sorted(
        WEEK.busy_idle
        + WEEK.busy_per_mib
        * (1 + WEEK.fan_out)
        * (WEEK.rate(at) * rate_factor * share * 1.05 ** ((WEEK.end_s - at) / DAY_S + day))
        / MIB
        for at in WEEK.steps
    )
    return found[round(0.9 * (len(found) - 1))]


# -- processors ----------------------------------------------------------------------------------


def test_more_traffic_makes_brokers_as_busy_as_the_model(week: WindowHistory) -> None:
    found = what_if(week, Scenario(growth=0.3))
    first, second, _ = found.busy
    for each, share in ((first, 0.5), (second, 0.25)):
        rates = [WEEK.rate(at) * share * 1.3 * 3 / MIB for at in WEEK.steps]
        expected = WEEK.busy_idle + WEEK.busy_per_mib * sum(rates) / len(rates)
        assert each.busy_avg == pytest.approx(expected, rel=0.01)
        assert each.model.kind == "fitted"
        assert each.model.r2 > 0.99
        assert each.model.base == pytest.approx(WEEK.busy_idle, rel=0.01)
    assert first.client_bytes_per_s == pytest.approx(1.3 * first.client_bytes_per_s_now)
    assert first.replication_bytes_per_s == pytest.approx(1.3 * first.replication_bytes_per_s_now)
    assert "1.3" not in found.notes


def test_the_day_of_100_percent_is_that_of_the_truth(week: WindowHistory) -> None:
    found = what_if(week, Scenario(growth=0.5))
    (first, *_) = found.busy
    days = first.days_until_busy
    assert high_share(1.5, 0.5, days - 1) < 1 < high_share(1.5, 0.5, days + 1)


def test_more_brokers_share_the_load_and_fewer_take_more(week: WindowHistory) -> None:
    now = {each.broker: each for each in what_if(week, Scenario(growth=0.0)).busy}
    more = what_if(week, Scenario(brokers="+1"))
    assert (more.brokers_now, more.brokers) == (3, 4)
    assert [each.is_new for each in more.busy] == [False, False, False, True]
    total = sum(each.client_bytes_per_s for each in now.values())
    assert sum(each.client_bytes_per_s for each in more.busy) == pytest.approx(total)
    assert more.busy[0].busy_avg < now[0].busy_avg
    fewer = what_if(week, Scenario(brokers="2"))
    assert [each.broker for each in fewer.busy] == [0, 1]
    assert sum(each.client_bytes_per_s for each in fewer.busy) == pytest.approx(total)
    assert fewer.busy[0].busy_avg > now[0].busy_avg
    assert fewer.replicas == pytest.approx(2)
    alone = what_if(week, Scenario(brokers="-2"))
    assert alone.busy[0].replication_bytes_per_s == 0
    assert any("do not fit on 1 broker" in note for note in alone.notes)
    text_of(alone)


def test_less_traffic_is_less_busy(week: WindowHistory) -> None:
    found = what_if(week, Scenario(growth=-0.5))
    assert found.busy[0].busy_avg < found.busy[0].busy_avg_now
    assert "50 % less traffic" in text_of(found)


def test_too_much_traffic_fills_windows_and_is_full_now(week: WindowHistory) -> None:
    found = what_if(week, Scenario(growth=9.0))
    assert found.busy[0].windows_full > 0
    assert found.busy[0].days_until_busy == 0
    assert found.first_limit.in_days == 0


def loads(count: int, busy: Any, dice: random.Random) -> list[Load]:
    made = []
    for at in range(count):
        mib, requests = dice.uniform(1, 100), dice.uniform(10, 1000)
        made.append(Load(at, busy(mib, requests), mib * 0.8, mib * 0.2, requests))
    return made


def test_bytes_and_requests_are_told_apart() -> None:
    dice = random.Random(1)
    model = fitted(loads(200, lambda mib, requests: 0.1 + 0.004 * mib + 0.0003 * requests, dice))
    assert model.kind == "fitted"
    assert model.base == pytest.approx(0.1, abs=1e-6)
    assert model.per_mib == pytest.approx(0.004)
    assert model.per_request == pytest.approx(0.0003)
    assert model.r2 == pytest.approx(1)


def test_a_poor_fit_is_proportional() -> None:
    dice = random.Random(2)
    model = fitted(loads(200, lambda *_: dice.uniform(0, 1), dice))
    assert model.kind == "proportional"
    before = Load(0, 0.2, 10.0, 0.0, 5.0)
    assert model.busy(before, before._replace(client_mib_per_s=20.0)) == pytest.approx(0.4)
    assert fitted([before]).kind == fitted([before] * 50).kind == "proportional"


def test_more_bytes_never_make_a_broker_less_busy() -> None:
    model = fitted(loads(200, lambda mib, requests: 0.9 - 0.005 * mib, random.Random(3)))
    assert (model.kind, model.per_mib) == ("proportional", 0.0)


# -- disks ---------------------------------------------------------------------------------------


def test_a_retention_bounds_the_logs(week: WindowHistory) -> None:
    found = what_if(week, Scenario(retention_s=2 * DAY_S))
    last_day = sum(WEEK.rate(at) * 600 for at in WEEK.steps if at >= WEEK.end_s - DAY_S)
    assert sum(each.steady for each in found.disks) == pytest.approx(2 * 2 * last_day, rel=0.01)
    assert {each.verdict for each in found.disks} <= {"fits", "full in days"}


def test_topics_without_a_known_retention_continue_to_grow(week: WindowHistory) -> None:
    found = what_if(week, Scenario(growth=1.0))
    first = found.disks[0]
    assert first.growing_topics == ["orders"]
    assert first.steady is None
    per_day = 0.5 * WEEK.disk_total / (WEEK.full_after_days + WEEK.days)
    assert first.days_until_full == pytest.approx(WEEK.usable(0, WEEK.end_s) / (2 * per_day), 0.05)
    assert found.first_limit.what == "a full disk"
    assert "orders: grow on" in text_of(found)


def test_a_retention_of_one_topic_leaves_others(week: WindowHistory) -> None:
    found = what_if(week, Scenario(topic_retention_s={"orders": HOUR_S}))
    first = found.disks[0]
    assert first.growing_topics == []
    assert first.verdict == "fits"
    assert GIB < first.steady < 10 * GIB
    with pytest.raises(UserError, match="no windows of topic nope; there are: held, orders"):
        what_if(week, Scenario(topic_retention_s={"nope": HOUR_S}))


def test_without_windows_of_topics_the_logs_of_brokers_are_looked_at() -> None:
    found = what_if(history({BROKER: WEEK.broker_rows()}), Scenario(retention_s=DAY_S))
    assert all(each.steady is not None for each in found.disks)
    grown = what_if(history({BROKER: WEEK.broker_rows()}), Scenario(brokers="+3"))
    assert grown.disks[0].growing_topics == ["(all else)"]
    assert grown.disks[3].is_new
    text_of(grown)


def test_short_history_gives_no_final_size_of_logs() -> None:
    short = Truth(days=0.1)
    found = what_if(history(short.rows()), Scenario(growth=0.5))
    first = found.disks[0]
    assert (first.steady, first.verdict) == (None, "unknown")
    assert first.unknown_topics == ["held", "orders"]
    assert "held, orders: not yet known" in text_of(found)
    bounded = what_if(history(short.rows()), Scenario(retention_s=DAY_S))
    assert bounded.disks[0].steady is not None
    more = what_if(history(short.rows()), Scenario(brokers="+1"))
    assert more.disks[-1].verdict == "unknown"


def test_without_gauges_of_disks_only_the_size_is_told() -> None:
    rows = [
        {**row, "disk_total_last": None, "disk_usable_last": None} for row in WEEK.broker_rows()
    ]
    found = what_if(history({BROKER: rows}), Scenario(retention_s=DAY_S))
    assert {each.verdict for each in found.disks} == {"unknown"}
    assert "the records do not contain the size of the disks" in found.notes


# -- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", ["-3", "-4"])
def test_scenario_needs_at_least_one_broker(week: WindowHistory, brokers: str) -> None:
    with pytest.raises(UserError, match=f"brokers {brokers}: there are 3 brokers in the history"):
        what_if(week, Scenario(brokers=brokers))


def test_quota_windows_alone_answer_quotas_and_nothing_else() -> None:
    only = history({QUOTA: WEEK.quota_rows()})
    found = what_if(only, Scenario(quotas={"produce": 2e6}))
    assert found.throttled[0].windows_over == 168
    assert any("no figures of processors" in note for note in found.notes)
    text_of(found)
    for scenario in (Scenario(growth=0.1), Scenario(brokers="+1", quotas={"produce": 1.0})):
        with pytest.raises(UserError, match="no windows of brokers"):
            what_if(only, scenario)


def test_one_window_is_answered_with_what_it_tells() -> None:
    (row, *_) = WEEK.broker_rows()
    row["replication_bytes_in_exact"] = row["replication_bytes_out_exact"] = 0
    found = what_if(history({BROKER: [row]}), Scenario(growth=0.5))
    assert found.busy[0].model.kind == "proportional"
    assert found.busy[0].busy_avg == pytest.approx(1.5 * found.busy[0].busy_avg_now)
    assert found.first_limit is None
    assert any("proportional" in note for note in found.notes)
    assert any("is unknown: its growth cannot be told" in note for note in found.notes)
    text_of(found)


def test_brokers_without_traffic_stay_without() -> None:
    rows = [{**row, "bytes_in_exact": 0, "bytes_out_exact": 0} for row in WEEK.broker_rows()]
    found = what_if(history({BROKER: rows}), Scenario(brokers="-1", growth=0.5))
    assert all(each.client_bytes_per_s == 0 for each in found.busy)
    text_of(found)


# -- quotas --------------------------------------------------------------------------------------


def quota(start_s: int, client: str, rate: float, **columns: Any) -> Row:
    usual = {
        "broker": 0,
        "user": "u",
        "quota": "produce",
        "usage_exact": round(rate * 10),
        "rate_max": rate,
        "histogram": [(rate_bucket(rate), 1)],
    }
    return {"start_s": start_s, "client_id": client, **usual, **columns}


def test_windows_over_a_limit_are_counted(week: WindowHistory) -> None:
    found = what_if(week, Scenario(quotas={"produce": 2e6, "fetch": 1.0}))
    loader, quiet = found.throttled
    assert (loader.client_id, loader.windows_over, loader.windows) == ("loader", 168, 1008)
    assert loader.seconds_over == 168
    assert loader.rate_max == pytest.approx(3 * MIB)
    assert (quiet.client_id, quiet.windows_over) == ("quiet", 0)
    assert "168 of 1,008" in text_of(found)
    grown = what_if(week, Scenario(quotas={"produce": 2e6}, growth=1.0))
    assert grown.throttled[0].windows_over == 1008
    spread = what_if(week, Scenario(quotas={"produce": 2e6}, brokers="+3"))
    assert spread.throttled[0].rate_max == pytest.approx(1.5 * MIB)


def test_users_that_share_the_budget_of_a_client_id_are_given_their_shares() -> None:
    """Each of their windows has the rate of the budget as a whole."""
    budget = {"rule": "client", "limit": 1000.0}
    rows = [
        quota(THURSDAY, "a", 900.0, user="one", usage_exact=8000, **budget),
        quota(THURSDAY, "a", 900.0, user="two", usage_exact=1000, **budget),
    ]
    (found,) = throttled(history({QUOTA: rows}), {"produce": 1000.0}, {0: 1.0})
    assert found.rate_max == pytest.approx(900)
    assert found.windows_over == 0


def test_a_client_id_of_two_users_is_added_up() -> None:
    rows = [
        quota(THURSDAY, "a", 600.0, user="one"),
        quota(THURSDAY, "a", 600.0, user="two"),
        quota(THURSDAY + 60, "a", 600.0, user="one"),
    ]
    (found,) = throttled(history({QUOTA: rows}), {"produce": 1000.0}, {0: 1.0})
    assert (found.windows_over, found.windows, found.rate_max) == (1, 2, 1200.0)


def test_more_specific_rules_brokers_and_quotas_that_are_not_asked_for_are_left_out() -> None:
    rows = [
        quota(THURSDAY, "a", 600.0, rule="user+client", limit=1.0),
        quota(THURSDAY, "b", 600.0, quota="fetch"),
        quota(THURSDAY, "c", 600.0, broker=7),
        quota(THURSDAY, "d", 600.0, rule="client", limit=1.0),
        quota(THURSDAY, "e", 600.0, histogram=None),
    ]
    found = throttled(history({QUOTA: rows}), {"produce": 500.0}, {0: 1.0})
    assert [(each.client_id, each.seconds_over) for each in found] == [("d", 1), ("e", 1)]
