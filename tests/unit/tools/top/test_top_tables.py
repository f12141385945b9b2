"""The tables of `top`, from made-up readings of brokers."""

import json
from typing import Any

from cluster.metrics.kafka_names import TOPIC_METRICS
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.model.clocks import MonotonicMs
from cluster.tools.top.group_past import GroupPast
from cluster.tools.top.tables import (
    TABLES,
    GroupProgress,
    Look,
    brokers_table,
    clients_table,
    groups_table,
    summary,
    topics_table,
)
from cluster.views.client_states import DEAD, BrokerStats
from cluster.views.group_lags import GroupLags
from tests.support.broker_stats import broker_stats, counted_values

MIB = 1024.0 * 1024.0
THEN_MS, NOW_MS = 1_000_000, 1_002_000


def a_row(client_id: str, quota: str = "produce", **fields: Any) -> QuotaRow:
    given = {"user": "ANONYMOUS", "active_ms": NOW_MS, "connections": 1, **fields}
    return QuotaRow(quota=quota, client_id=client_id, **given)


def counts(**by_key: int) -> dict[str, int]:
    return {metric.key: by_key.get(metric.key, 0) for metric in TOPIC_METRICS}


def look(*brokers: tuple[BrokerStats, Stats | None], groups: Any = (), progress: Any = ()) -> Look:
    return Look(
        [broker for broker, _ in brokers],
        {broker.broker: former for broker, former in brokers},
        groups,
        dict(progress),
        MonotonicMs(NOW_MS + 40),
    )


def reading(broker: int = 0, **fields: Any) -> BrokerStats:
    return broker_stats(broker, written_ms=NOW_MS, **fields)


def former(**fields: Any) -> Stats:
    return broker_stats(written_ms=THEN_MS, **fields).stats


def a_group(
    name: str, ts: int = 0, lag: int = 0, committed: int = 0, members: int = 1
) -> GroupLags:
    fields = {"group": name, "type": "classic", "state": "Stable", "members": members, "ts": ts}
    return GroupLags(
        {**fields, "partitions": 1, "lag": lag, "state_ms": {"Stable": 5_000}},
        [{"topic": "orders", "partition": 0, "committed": committed, "lag": lag}],
    )


def test_a_client_is_one_row_with_its_rates_over_all_brokers() -> None:
    limited: dict[str, Any] = {"rule": "client", "limit": MIB, "delay_ms": 500, "rate": 1.5 * MIB}
    one = reading(0, rows=[a_row("loader", **limited), a_row("loader", "request", rate=2.0)])
    two = reading(1, rows=[a_row("loader", **{**limited, "rate": 0.5 * MIB, "delay_ms": 0})])
    table = clients_table(look((one, None), (two, None)), everyone=False)
    (row,) = table.rows
    cells = dict(zip(table.columns, row.cells, strict=True))
    assert "USER" not in cells
    assert (cells["WRITES"], cells["TIME"], cells["USED"]) == ("2.00 MiB/s", "2.00 %", "150 %")
    assert (cells["LIMIT"], cells["DELAY"]) == ("1.00 MiB/s produce", "500 ms")
    assert row.style == "red"
    assert row.note.startswith("loader is throttled on broker 0 only: 1.50 MiB/s against a limit")
    assert (row.fields["standing"], row.fields["used"]) == ("throttled", 1.5)


def test_own_and_idle_clients_are_counted_and_shown_if_asked_for() -> None:
    rows = [a_row("app"), a_row("milena-top"), a_row("gone", active_ms=NOW_MS - 61_000)]
    seen = look((reading(rows=rows), None))
    table = clients_table(seen, everyone=False)
    assert [row.fields["client_id"] for row in table.rows] == ["app"]
    assert table.hidden == "2 more: 1 of Milena's own, 1 without a request for a minute"
    assert len(clients_table(seen, everyone=True).rows) == 3


def test_users_are_a_column_where_there_are_any() -> None:
    table = clients_table(look((reading(rows=[a_row("app", user="alice")]), None)), everyone=False)
    assert table.columns[:2] == ("CLIENT-ID", "USER")
    assert table.rows[0].cells[:2] == ("app", "alice")


def test_a_topic_has_its_rates_over_all_brokers_and_the_lag_of_its_groups() -> None:
    topic = {"orders": counts(BytesInPerSec=4_096, MessagesInPerSec=20, LeaderCount=2, Size=2_048)}
    both = [(reading(each, topics=topic), former(topics={"orders": counts()})) for each in (0, 1)]
    seen = look(*both, groups=[a_group("billing", lag=7)])
    (row,) = topics_table(seen, everyone=False).rows
    assert row.cells == ("orders", "4", "4.00 KiB/s", "20.0", "", "", "", "7", "4.00 KiB")


def test_internal_topics_are_hidden_and_other_brokers_rates_are_not_guessed() -> None:
    topics = {"__consumer_offsets": counts(), "orders": counts(), "_other": counts()}
    known = (reading(topics=topics), former(topics=topics))
    table = topics_table(look(known, (reading(1, topics={"late": counts()}), None)), everyone=False)
    assert [row.cells[0] for row in table.rows] == ["(other topics)", "orders"]
    assert table.hidden == "1 more: internal topics"


def test_a_group_has_its_progress() -> None:
    groups = [a_group("billing", lag=90), a_group("empty", members=0)]
    seen = look(groups=groups, progress={"billing": GroupProgress(250.0, 12.0)})
    table = groups_table(seen, everyone=False)
    (row,) = table.rows
    assert row.cells == ("billing", "classic", "Stable", "1", "1", "90", "+12", "250")
    assert row.style == "red"
    assert table.hidden == "1 more: groups without members and lag"


def test_progress_of_groups_comes_from_their_last_two_records() -> None:
    past = GroupPast()
    assert past.add([a_group("billing", ts=1_000, committed=10, lag=50)]) == {}
    later = a_group("billing", ts=6_000, committed=1_010, lag=40)
    assert past.add([later]) == {"billing": GroupProgress(200.0, -2.0)}
    assert past.add([later]) == {"billing": GroupProgress(200.0, -2.0)}
    assert past.add([]) == {}


def test_a_broker_has_rates_of_its_own_and_a_dead_one_none() -> None:
    now = counted_values(BytesInPerSec=2_048, BusyTimeUs=500_000, ActiveControllerCount=1)
    seen = look(
        (reading(0, values=now), former(values=counted_values())),
        (reading(1, values=now, state=DEAD), former(values=counted_values())),
    )
    first, second = brokers_table(seen, everyone=False).rows
    assert first.cells[:4] == ("0", "alive, controller", "25 %", "1.00 KiB/s")
    assert second.cells[:4] == ("1", "dead 40 ms", "", "")
    assert second.style == "dim"
    assert summary(seen).startswith("1 of 2 brokers alive, in 1.00 KiB/s, out 0.00 B/s, lag 0, ")


def test_every_table_has_a_cell_and_a_value_for_each_column_and_can_be_written_as_json() -> None:
    values, topics = counted_values(), {"orders": counts()}
    seen = look(
        (
            reading(values=values, topics=topics, rows=[a_row("app", user="u")]),
            former(values=values, topics=topics),
        ),
        groups=[a_group("billing")],
    )
    for table in (make(seen, everyone=True) for make in TABLES.values()):
        assert table.rows
        assert {*table.amounts, *table.dispensable} <= {*table.columns}
        for row in table.rows:
            assert len(row.cells) == len(row.values) == len(table.columns)
            json.dumps(row.fields)
