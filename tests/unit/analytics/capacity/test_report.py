"""Figures of histories equal the model that the histories were generated from."""

import json
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.capacity import throughput_plot
from cluster.analytics.capacity.disks import disks
from cluster.analytics.capacity.growth import busy_hours, growth
from cluster.analytics.capacity.headroom import headroom
from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.capacity.lags import lags
from cluster.analytics.capacity.latencies import latencies
from cluster.analytics.capacity.page import page
from cluster.analytics.capacity.report import CapacityReport, Events, events, report
from cluster.analytics.capacity.topics import topics
from cluster.analytics.reports.svg_shapes import LABEL_HEIGHT
from cluster.analytics.windows.kinds import BROKER, EVENT, LAG, LATENCY, QUOTA, TOPIC
from cluster.tools.capacity.report_text import report_text
from tests.support.capacity_history import (
    DAY_S,
    GIB,
    HOUR_S,
    MIB,
    STEP_S,
    THURSDAY,
    Row,
    Truth,
    history,
)

WEEK = Truth()
NO_EVENTS = Events([], 0, "")


@pytest.fixture(scope="module")
def week() -> WindowHistory:
    return history(WEEK.rows())


def text_of(found: CapacityReport) -> str:
    return "\n".join(report_text(found, "here", explain=True))


def broker(start_s: int, number: int = 0, **columns: Any) -> Row:
    """A record of a broker that was half idle for ten minutes."""
    counters = dict.fromkeys(
        (
            *("bytes_in_exact", "bytes_out_exact", "messages_in_exact"),
            *("replication_bytes_in_exact", "replication_bytes_out_exact", "requests"),
            *("isr_shrinks", "isr_expands"),
        ),
        0,
    )
    idle = {"covered_ms": STEP_S * 1000, "idle_ms": STEP_S * 500, "busy_max": 0.5}
    return {"start_s": start_s, "broker": number, **counters, **idle, **columns}


def hours(count: float) -> range:
    return range(THURSDAY, THURSDAY + round(count * HOUR_S), STEP_S)


# -- a week ------------------------------------------------------------------------------------


def test_growth_of_a_week_is_found(week: WindowHistory) -> None:
    found = growth(week)
    last_day = sum(WEEK.rate(at) * STEP_S for at in WEEK.steps if at >= WEEK.end_s - DAY_S)
    assert found.bytes_in_per_day == pytest.approx(last_day, rel=0.001)
    assert found.bytes_out_per_day == pytest.approx(2 * last_day, rel=0.001)
    assert found.messages_per_day == pytest.approx(last_day / 1000, rel=0.001)
    assert found.trend.verdict == "grows"
    assert found.trend.percent_per_day == pytest.approx(5, abs=0.1)
    assert "7 whole days" in found.trend.how


def test_growth_of_each_topic_is_found(week: WindowHistory) -> None:
    found = topics(week, 10)
    assert [each.topic for each in found.rows] == ["orders", "held"]
    orders, held = found.rows
    assert orders.trend.percent_per_day == pytest.approx(5, abs=0.1)
    assert orders.bytes_in_per_day == pytest.approx(3 * held.bytes_in_per_day, rel=0.001)
    assert held.size == 3 * GIB
    assert held.size_trend.verdict == "steady"
    assert orders.size_trend.verdict == "grows"
    assert topics(week, 1).left_out == 1


def test_the_disk_that_is_full_in_twelve_days_is_found(week: WindowHistory) -> None:
    found = disks(week)
    assert found.first_full == 0
    first, second, third = found.brokers
    assert first.verdict == "full in days"
    assert first.days_until_full == pytest.approx(12, abs=0.1)
    assert first.basis == "trend of the space left"
    assert first.days_by_logs == pytest.approx(12, abs=0.1)
    assert second.days_until_full == third.days_until_full == pytest.approx(69, abs=1)


def test_the_busiest_hours_are_those_after_lunch_on_the_last_working_day(
    week: WindowHistory,
) -> None:
    found = busy_hours(week)
    assert all(rate is not None for row in found.bytes_per_s for rate in row)
    wednesday = found.days.index("Wednesday")
    assert found.busiest[0].weekday == wednesday
    assert {each.hour for each in found.busiest} == {13, 14, 15}
    expected = sum(WEEK.rate(WEEK.end_s - DAY_S + 14 * HOUR_S + at) for at in range(0, HOUR_S, 600))
    assert found.busiest[0].bytes_per_s == pytest.approx(3 * expected / 6, rel=0.01)


def test_the_broker_that_is_twice_as_busy_is_the_bottleneck(week: WindowHistory) -> None:
    found = headroom(week)
    assert found.bottleneck == 0
    busy = {each.broker: 1 - each.idle_avg for each in found.brokers}
    assert busy[0] - WEEK.busy_idle == pytest.approx(2 * (busy[1] - WEEK.busy_idle), rel=0.01)
    shares = sorted(
        WEEK.busy_idle + WEEK.busy_per_mib * WEEK.rate(at) * 0.5 * 3 / MIB for at in WEEK.steps
    )
    first = found.brokers[0]
    assert 1 - first.idle_low == pytest.approx(shares[round(0.9 * len(shares))], rel=0.01)
    assert first.busy_max == pytest.approx(shares[-1])
    assert first.connections_max == 10


def test_a_p99_that_doubles_is_found(week: WindowHistory) -> None:
    found = latencies(week)
    assert [each.api for each in found.apis] == ["Produce", "Fetch", "Metadata"]
    produce, fetch, _ = found.apis
    assert produce.p99_ratio == pytest.approx(2, rel=0.01)
    assert 8.192 <= produce.now.p99_ms < 16.384
    assert fetch.p99_ratio == pytest.approx(1)
    assert found.now_from_s == WEEK.end_s - DAY_S
    assert found.before_from_s == WEEK.first_s


def test_a_long_history_is_compared_with_the_week_before() -> None:
    truth = Truth(days=9)
    found = latencies(history({LATENCY: truth.latency_rows()}))
    assert found.before_from_s == truth.end_s - 8 * DAY_S


def test_groups_that_fall_behind_and_catch_up_are_found(week: WindowHistory) -> None:
    found = {each.group: each for each in lags(week).groups}
    assert list(found) == ["stopped", "behind", "catching", "ahead"]
    assert found["behind"].verdict == "falls behind"
    assert found["behind"].produced_per_s == pytest.approx(100, rel=0.01)
    assert found["behind"].consumed_per_s == pytest.approx(90, rel=0.01)
    assert found["behind"].is_never
    assert found["catching"].verdict == "catches up"
    assert found["catching"].lag == 36_000
    assert found["catching"].caught_up_in_s == pytest.approx(36_000 / 20, rel=0.01)
    assert found["ahead"].verdict == "up to date"
    assert not found["ahead"].is_never
    assert found["stopped"].is_never


def test_events_are_in_order_and_the_latest_are_kept(week: WindowHistory) -> None:
    found = events(week)
    names = [each.event for each in found.rows]
    assert names == ["broker-down", "election", "broker-up", "quota", "rebalance"]
    assert found.rows[1].text == "orders: 3 partitions have other leaders"
    latest = events(week, 2)
    assert [each.event for each in latest.rows] == ["quota", "rebalance"]
    assert latest.left_out == 3


def test_the_report_is_json_text_and_a_page_with_how_each_figure_was_reached(
    week: WindowHistory,
) -> None:
    found = report(week)
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    sections = [each for name, each in told.items() if name != "period"]
    assert all(section["how"] for section in sections)
    text = text_of(found)
    for part in ("in 12.0 days", "+5.0 % a day", "bottleneck is broker 0", "never at this pace"):
        assert part in text
    assert text.count("How: ") == len(sections) - 1  # the plot's series are not in the text
    html = page(found, "<here>")
    assert "&lt;here&gt;" in html
    assert html.count('class="cell"') == 7 * 24
    assert html.count('class="event"') == 3  # close events share a mark
    assert "election: orders: 3 partitions have other leaders" in html
    assert "broker-down: broker 2: was killed by SIGKILL" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert (
        "The disk of broker 0 is full in 12.0 days at the present pace; traffic grows by 5.0 % a"
        " day; groups that fall behind: 2 of 4." in html
    )


def test_names_are_text_in_the_page_and_lines_on_a_terminal() -> None:
    nasty = "<img src=x onerror=alert(1)>\n\x1b[31m"
    truth = Truth(days=1.5)
    rows = {kind: list(each) for kind, each in truth.rows().items()}
    for kind, key in ((TOPIC, "topic"), (LAG, "group"), (EVENT, "subject"), (EVENT, "detail")):
        for row in rows[kind]:
            row[key] = nasty
    found = report(history(rows))
    assert "<img" not in page(found, "here")
    text = text_of(found)
    assert "\x1b" not in text
    assert "<img src=x onerror=alert(1)>\\n\\x1b[31m" in text


def test_series_have_gaps_where_there_are_no_records() -> None:
    rows = [
        *Truth(days=0.25).broker_rows(),
        *Truth(days=0.25, first_s=THURSDAY + DAY_S).broker_rows(),
    ]
    found = report(history({BROKER: rows})).series
    known = [rate is not None for rate in found.bytes_in_per_s]
    assert known == [True] * 6 + [False] * 18 + [True] * 6


def test_names_of_equal_lines_of_throughput_do_not_touch() -> None:
    rows = list(Truth(days=0.25, fan_out=1.0).broker_rows())
    shapes = throughput_plot.plot(report(history({BROKER: rows})).series, NO_EVENTS).shapes
    heights = [float(each.attributes["y"]) for each in shapes if "end" in each.attributes["class"]]
    assert len(heights) == 2, "of bytes in and bytes out"
    assert abs(heights[0] - heights[1]) == pytest.approx(LABEL_HEIGHT)
    assert "no data" in [each.text for each in shapes], "of the p99"


def test_labels_of_a_few_minutes_of_throughput_differ() -> None:
    rows = [broker(THURSDAY + 60 * minute, covered_ms=60_000) for minute in range(4)]
    shapes = throughput_plot.plot(report(history({BROKER: rows})).series, NO_EVENTS).shapes
    times = [each.text for each in shapes if each.text is not None and ":" in each.text]
    assert len(times) > 4
    assert len(set(times)) == len(times)


def test_columns_of_earlier_response_times_are_left_out_when_there_are_none() -> None:
    short = Truth(days=1 / 24)
    rows = {kind: list(rows) for kind, rows in short.rows().items() if kind in (BROKER, LATENCY)}
    text = text_of(report(history(rows)))
    assert "P99 BEFORE" not in text
    assert "too short to compare them with earlier ones" in text
    assert "P99 BEFORE" in text_of(report(history(WEEK.rows())))


# -- little history -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds",
    [{BROKER}, {TOPIC}, {LATENCY}, {LAG}, {EVENT}, {QUOTA}, {BROKER, EVENT}],
    ids=lambda kinds: "+".join(sorted(kind.name for kind in kinds)),
)
@pytest.mark.parametrize("days", [0.007, 0.1, 1.3])
def test_every_section_says_what_it_cannot_tell(kinds: set[Any], days: float) -> None:
    truth = Truth(days=days)
    rows = {kind: each if kind in kinds else [] for kind, each in truth.rows().items()}
    found = report(history(rows))
    json.dumps(found.as_json(), allow_nan=False)
    text = text_of(found)
    if BROKER not in kinds:
        assert "There are no windows of brokers." in text
    html = page(found, "here")
    assert "Growth" in html
    if BROKER not in kinds:
        assert "It is not yet known when a disk will be full" in html
        assert "none within a year" not in html


def test_one_window_tells_the_present_and_no_trend() -> None:
    row = broker(THURSDAY, bytes_in_exact=600 * MIB, log_size_last=GIB, disk_usable_last=GIB)
    found = report(history({BROKER: [row]}))
    assert found.growth.bytes_in_per_day == pytest.approx(DAY_S * MIB)
    html = page(found, "here")
    assert "bytes in, a day, as in these 1 min 00 s</span>" in html
    scaled = "Amounts a day: as in these 1 min 00 s, taken to 24 hours."
    for text in (html, text_of(found)):  # the dashboard shows the same tables
        assert text.count(scaled) == 1  # of growth: there are no windows of topics
    assert "taken to 24 hours." not in text_of(report(history(Truth(days=2).rows())))
    assert found.growth.trend.verdict == "unknown"
    assert "0 hours of traffic" in found.growth.trend.how
    (disk,) = found.disks.brokers
    assert (disk.verdict, disk.log_size) == ("unknown", GIB)
    assert found.headroom.bottleneck is None
    assert "not yet known" in text_of(found)


def test_quota_windows_alone_tell_growth_and_hours() -> None:
    truth = Truth(days=5)
    found = report(history({QUOTA: truth.quota_rows()}))
    assert "quota windows" in found.growth.how
    assert found.growth.bytes_in_per_day == pytest.approx(
        1.1 * DAY_S / STEP_S * 60 * MIB * 8 / 6, rel=0.02
    )
    assert found.growth.trend.verdict == "steady"
    assert found.busy_hours.busiest != []


def test_counters_at_0_are_no_growth_and_nothing_busy() -> None:
    found = report(history({BROKER: map(broker, hours(30))}))
    assert found.growth.bytes_in_per_day == 0
    assert found.growth.trend.verdict == "steady"
    assert found.busy_hours.busiest == []
    assert "no trend" in text_of(found)


# -- disks --------------------------------------------------------------------------------------


def disk_of(rows: list[Row]) -> Any:
    (found,) = disks(history({BROKER: rows})).brokers
    return found


def test_logs_that_stay_while_records_come_in_are_held_by_retention() -> None:
    rows = [
        broker(
            at,
            bytes_in_exact=100 * MIB,
            log_size_last=50 * GIB + at % 7 * MIB,
            disk_total_last=100 * GIB,
            disk_usable_last=40 * GIB,
        )
        for at in hours(48)
    ]
    found = disk_of(rows)
    assert found.verdict == "held by retention"
    assert found.days_until_full is None


@pytest.mark.parametrize(("usable", "verdict"), [(0, "full now"), (900 * GIB, "not within a year")])
def test_a_disk_is_full_now_or_not_within_a_year(usable: int, verdict: str) -> None:
    rows = [
        broker(at, log_size_last=GIB, disk_total_last=1000 * GIB, disk_usable_last=usable)
        for at in hours(48)
    ]
    assert disk_of(rows).verdict == verdict


def test_a_disk_that_shrinks_slowly_is_not_full_within_a_year() -> None:
    rows = [
        broker(
            at,
            log_size_last=GIB,
            disk_total_last=1000 * GIB,
            disk_usable_last=900 * GIB - (at - THURSDAY) * 10_000,
        )
        for at in hours(48)
    ]
    found = disk_of(rows)
    assert (found.verdict, found.days_until_full) == ("not within a year", None)
    assert found.days_by_usable == pytest.approx(900 * GIB / (DAY_S * 10_000), rel=0.01)


def test_another_file_system_begins_a_new_trend() -> None:
    """The free space jumps up with it, and falls as before."""
    at_s = THURSDAY + 24 * HOUR_S

    def row(time_s: int) -> Row:
        added = 100 * GIB if time_s >= at_s else 0
        return broker(
            time_s,
            log_size_last=GIB,
            disk_total_last=100 * GIB + added,
            disk_usable_last=round(90 * GIB + added - (time_s - THURSDAY) * 2 * GIB / HOUR_S / 10),
        )

    found = disk_of([row(at) for at in hours(36)])
    assert found.usable_trend.points == 12
    left = 190 * GIB - 36 * 2 * GIB / 10
    assert found.days_until_full == pytest.approx(left / (4.8 * GIB), rel=0.02)


def test_without_gauges_of_disks_it_is_not_known_when_they_are_full() -> None:
    found = disk_of([broker(at, log_size_last=at) for at in hours(48)])
    assert found.verdict == "unknown"
    assert found.basis == "the records do not contain the size of the disks"
    assert found.log_trend.verdict == "grows"


# -- brokers and groups that come and go ---------------------------------------------------------


def test_removed_broker_is_listed_without_a_forecast() -> None:
    truth = Truth(days=3)
    left_s = truth.end_s - 5 * HOUR_S
    rows = [row for row in truth.broker_rows() if row["broker"] != 0 or row["start_s"] < left_s]
    found = report(history({BROKER: rows}))
    first = found.disks.brokers[0]
    assert (first.is_gone, first.verdict, first.days_until_full) == (True, "gone", None)
    assert found.disks.first_full != 0
    assert found.headroom.bottleneck != 0
    assert "0 (gone)" in text_of(found)


def test_a_broker_that_came_late_is_judged_by_its_own_time() -> None:
    truth = Truth(days=3)
    came_s = truth.end_s - 12 * HOUR_S
    rows = [row for row in truth.broker_rows() if row["broker"] != 2 or row["start_s"] >= came_s]
    found = disks(history({BROKER: rows}))
    assert found.brokers[2].usable_trend.points == 12
    assert found.brokers[2].verdict == "full in days"


def test_records_in_flight_are_no_lag() -> None:
    """A group that commits every 5 s has the lag of what was produced since, and never 0."""
    rows = [
        {**row, "lag_last": 250, "committed_max": row["log_end_max"] - 250}
        for row in Truth(days=1).lag_rows()
        if row["group"] == "ahead"
    ]
    (found,) = lags(history({LAG: rows})).groups
    assert (found.lag, found.verdict, found.is_never) == (500, "up to date", False)


def test_a_group_without_windows_at_the_end_is_left_out() -> None:
    truth = Truth(days=2)
    rows = [
        row
        for row in truth.lag_rows()
        if row["group"] != "behind" or row["start_s"] < truth.end_s - 8 * HOUR_S
    ]
    found = lags(history({LAG: rows}))
    assert "behind" not in {each.group for each in found.groups}


def test_offsets_that_begin_anew_are_no_negative_pace() -> None:
    truth = Truth(days=1)
    anew_s = truth.end_s - 3 * HOUR_S
    rows = []
    for row in truth.lag_rows():
        if row["group"] == "ahead" and row["start_s"] >= anew_s:
            offset = 50 * (row["start_s"] - anew_s)
            row |= {"log_end_max": offset, "committed_max": offset}
        rows.append(row)
    found = {each.group: each for each in lags(history({LAG: rows})).groups}
    assert found["ahead"].produced_per_s == found["ahead"].consumed_per_s > 0
