"""Readings of clients for pages: rounded rows, then the differences."""

import json
from typing import Any

import pytest

from cluster.dashboard.live_differences import Differences
from cluster.dashboard.live_rows import (
    CLIENTS_MAX,
    COLUMNS,
    Cells,
    Key,
    live_rows,
    matches,
    shown_ms,
    shown_rate,
)
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_pauses import Pauses
from cluster.views.client_states import ALIVE, DEAD, BrokerStats
from cluster.views.client_verdict import IDLE_AFTER_MS

NOW_MS = MonotonicMs(1_000_000)


def broker(number: int, *rows: QuotaRow, state: str = ALIVE) -> BrokerStats:
    return BrokerStats(number, state, 0, Stats(f"broker-{number}", 1, 0, 0, 0, {}, list(rows)))


def used(client_id: str = "c", **fields: Any) -> QuotaRow:
    given = {"quota": "produce", "user": "u", "active_ms": NOW_MS, **fields}
    return QuotaRow(client_id=client_id, **given)


def only_row(*brokers: BrokerStats) -> dict[str, Any]:
    rows, left_out = live_rows(brokers, NOW_MS)
    ((_, cells),) = rows.items()
    assert left_out == 0
    return dict(zip(COLUMNS, cells, strict=True))


def test_row_combines_the_figures_of_brokers() -> None:
    near = used(
        limit=2048.0,
        rule="client",
        rate=2000.0,
        delay_ms=1_234,
        muted_until_ms=NOW_MS + 60,
        connections=5,
        muted_channels=2,
        throttled=2,
        throttle_ms=31.0,
        throttle_ms_max=30,
        software="lib 1",
        pauses=Pauses(quiet=5, early=0, connections=1, early_connections=0),
    )
    far = used(limit=1e9, rule="user", rate=5e6, delay_ms=3, connections=4, throttled=1)
    assert only_row(broker(0, far), broker(1, near)) == {
        "hidden": None,
        "is_live": True,
        "rate": round(1.95 * 1024, 2),
        "total": round(4.77 * 1024**2, 2),
        "brokers": 2,
        "limit": 2048.0,
        "utilisation": 0.98,
        "rule": "client",
        "delay_ms": 1_200,
        "muted_left_ms": 60,
        "muted": 2,
        "throttle_avg_ms": 10,
        "throttle_max_ms": 30,
        "connections": 9,
        "software": "lib 1",
        "honours": True,
    }


def test_dead_brokers_count_only_for_clients_unknown_to_live_ones() -> None:
    dead = broker(0, used(rate=9e9, muted_until_ms=NOW_MS + 60, muted_channels=1), state=DEAD)
    assert only_row(dead, broker(1, used(rate=1.0)))["rate"] == 1
    alone = only_row(dead)
    assert (alone["is_live"], alone["muted"], alone["muted_left_ms"]) == (False, 0, 0)


def test_all_rows_of_a_client_are_hidden_for_the_same_reason() -> None:
    past = NOW_MS - IDLE_AFTER_MS
    rows, _ = live_rows(
        [
            broker(0, used("idle", active_ms=past), used("busy", active_ms=past)),
            broker(1, used("busy", quota="request"), used("milena-topics", active_ms=past)),
        ],
        NOW_MS,
    )
    hidden = {key[1:]: cells[COLUMNS.index("hidden")] for key, cells in rows.items()}
    assert hidden == {
        ("idle", "produce"): "idle",
        ("busy", "produce"): None,
        ("busy", "request"): None,
        ("milena-topics", "produce"): "own",
    }


def test_the_delay_of_a_shared_budget_does_not_reach_a_client_that_sends_nothing() -> None:
    late = used(limit=1.0, rate=2.0, delay_ms=900, active_ms=NOW_MS - IDLE_AFTER_MS)
    assert only_row(broker(0, late))["delay_ms"] == 0


def test_limit_of_zero_is_valid_json() -> None:
    row = only_row(broker(0, used(limit=0.0, rate=5.0)))
    assert (row["limit"], row["utilisation"]) == (0.0, None)


def test_rows_are_those_nearest_to_their_limits() -> None:
    idle = [used(f"idle-{number}") for number in range(CLIENTS_MAX)]
    over, fast = used("over", limit=10.0, rate=12.0), used("fast", rate=5e9)
    dead = broker(1, used("gone", rate=1e12), state=DEAD)
    rows, left_out = live_rows([broker(0, *idle, fast, over), dead], NOW_MS)
    assert [key[1] for key in rows][:2] == ["over", "fast"]
    assert (len(rows), left_out) == (CLIENTS_MAX, 3)


def test_a_search_looks_at_users_and_client_ids_in_any_case() -> None:
    assert matches(("Alice", "x", "fetch"), "aLI")
    assert matches(("u", "Straße<b>", "fetch"), "STRASSE<")
    assert not matches(("u", "c", "fetch"), "fetch")


def test_search_finds_clients_that_were_left_out() -> None:
    far = [used(f"far-{number}", rate=9.0) for number in range(2 * CLIENTS_MAX)]
    rows, left_out = live_rows([broker(0, used("Wanted"), *far)], NOW_MS, "want")
    assert ([key[1] for key in rows], left_out) == (["Wanted"], 0)


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (0.4, 0),
        (1023.4, 1023),
        (1500.0, round(1.46 * 1024, 2)),
        (12_345.0, round(12.1 * 1024, 2)),
        (999_999.0, 977 * 1024),
        (1024.0**5 * 3, 3072 * 1024**4),
    ],
)
def test_rates_are_rounded_like_on_the_page(rate: float, shown: float) -> None:
    assert shown_rate("fetch", rate) == shown


def test_other_amounts_are_rounded_like_on_the_page() -> None:
    assert shown_rate("request", 9.876) == 9.88
    assert shown_rate("mutation", 98.76) == 98.8
    assert [shown_ms(each) for each in (0, 0.6, 999, 1_249, 1_250)] == [0, 1, 999, 1_200, 1_300]


class Page:
    """Keeps rows and sections as the page's script does."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.rows: dict[int, dict[str, Any]] = {}
        self.sections: dict[str, Any] = {}

    def take(self, text: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(text)
        if "columns" in told:
            self.columns, self.rows = told["columns"], {}
        for number, user, client_id, quota, *cells in told["new"]:
            self.rows[number] = {
                "key": (user, client_id, quota),
                **dict(zip(self.columns, cells, strict=True)),
            }
        for number, *changes in told.get("changed", ()):
            for column, value in zip(changes[::2], changes[1::2], strict=True):
                self.rows[number][self.columns[column]] = value
        for number in told.get("gone", ()):
            del self.rows[number]
        named = {"columns", "new", "changed", "gone"}
        self.sections |= {name: value for name, value in told.items() if name not in named}
        return told

    def shown(self) -> dict[Key, Cells]:
        return {
            row["key"]: tuple(row[column] for column in self.columns) for row in self.rows.values()
        }


def cells(**values: Any) -> Cells:
    return tuple(values.get(column) for column in COLUMNS)


A, B, C = (("u", name, "produce") for name in "abc")
READINGS: list[tuple[dict[Key, Cells], dict[str, Any]]] = [
    ({A: cells(rate=1), B: cells(rate=2)}, {"ts": 1, "events": ["x"]}),
    ({A: cells(rate=1), B: cells(rate=3, honours=False)}, {"ts": 2, "events": ["x"]}),
    ({B: cells(rate=3), C: cells(rate=9)}, {"ts": 3, "events": ["x", "y"]}),
    ({A: cells(rate=4), C: cells(rate=9)}, {"ts": 4, "events": ["x", "y"]}),
    ({}, {"ts": 5, "events": []}),
]


def test_a_page_knows_each_reading_from_the_first_on_or_from_a_later_one() -> None:
    for first in range(len(READINGS)):
        page, differences = Page(), Differences()
        for number, (rows, sections) in enumerate(READINGS):
            told = differences.update(rows, sections)
            if number >= first:
                page.take(told.whole if number == first else told.changes)
                assert (page.shown(), page.sections) == (rows, sections)


def test_unchanged_rows_are_not_sent() -> None:
    page, differences = Page(), Differences()
    for rows, sections in READINGS[:2]:
        told = page.take(differences.update(rows, sections).changes)
    rate, honours = COLUMNS.index("rate"), COLUMNS.index("honours")
    assert told == {"ts": 2, "new": [], "changed": [[1, rate, 3, honours, False]], "gone": []}


def test_whole_reading_is_sent_after_a_failed_one() -> None:
    differences = Differences()
    differences.update(*READINGS[0])
    failed = differences.failed("it is gone")
    assert failed.whole == failed.changes == '{"error":"it is gone"}'
    page = Page()
    page.take(differences.update(*READINGS[1]).changes)
    assert page.shown() == READINGS[1][0]
