"""Values become rows or are counted: each exactly once, whichever way they were parsed."""

import json
from datetime import UTC, datetime

import pytest

from cluster.brokers.metrics.records import broker_record
from cluster.model.clocks import WallMs
from tests.support.metric_records import (
    START_MS,
    as_written,
    generated_group_records,
    generated_records,
    group_record,
    lag_record,
    quota_record,
)

pa = pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.metric_rows import (  # noqa: E402
    _OF_BROKER,
    ROW_SCHEMA,
    Aside,
    Origin,
    count_row,
    reason_of,
    rows_of,
)


def encoded(*records: object) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def counts(batches) -> dict[str, int]:
    """Records by kind."""
    found: dict[str, int] = {}
    for batch in batches:
        for row in batch.to_pylist():
            found[row["kind"]] = found.get(row["kind"], 0) + row["records"]
    return found


def test_a_record_becomes_a_row_at_the_start_of_its_interval():
    (batch,) = rows_of(encoded(quota_record(throttle_ms=3, extra="ignored")))
    assert batch.schema == ROW_SCHEMA
    (row,) = batch.to_pylist()
    assert row["interval_start"].timestamp() * 1000 == START_MS
    assert (row["records"], row["throttle_ms"], row["limit"]) == (1, 3.0, 1_048_576.0)


def test_no_limit_no_rule_and_no_names_are_kept_as_such():
    record = quota_record(limit=None, rule=None, user=None, client_id="")
    (row,) = rows_of(encoded(record))[0].to_pylist()
    assert (row["limit"], row["rule"], row["user"], row["client_id"]) == (None, None, None, "")


def test_other_kinds_are_counted_and_not_rejected():
    values = encoded(
        quota_record(), {"v": 1, "kind": "broker", "values": {"a": 1}}, {"v": 1, "kind": "new"}
    )
    assert counts(rows_of(values)) == {"quota": 1, "other": 2}


def test_records_of_brokers_are_counted_as_other_kinds_in_whatever_form():
    written = broker_record(0, WallMs(START_MS), 1000, {"BytesInPerSec": 1.0}).value
    spaced = json.dumps(json.loads(written)).encode()
    assert counts(rows_of([written, spaced, *encoded(quota_record())])) == {"quota": 1, "other": 2}
    assert _OF_BROKER in written, "the way of brokers is known by its beginning"


def test_groups_and_lags_become_rows_without_a_broker():
    """The coordinator may move in the middle of a window."""
    values = encoded(lag_record(), group_record(), group_record(state_ms=None, lag=0))
    rows = [row for batch in rows_of(values) for row in batch.to_pylist()]
    (lag,) = [row for row in rows if row["kind"] == "lag"]
    first, second = [row for row in rows if row["kind"] == "group"]
    assert (lag["group"], lag["topic"], lag["partition"]) == ("billing", "orders", 0)
    assert (lag["lag"], lag["log_end"], lag["committed"]) == (7, 107, 100)
    assert [row["broker"] for row in (lag, first, second)] == [None] * 3
    assert [row["members"] for row in (lag, first, second)] == [None, 2, 2]
    states = {(row["lag"], row["stable_ms"], row["empty_ms"]) for row in (first, second)}
    assert states == {(9, 4_800, None), (0, None, None)}
    assert {row["interval_start"].timestamp() * 1000 for row in (lag, first)} == {START_MS}


BAD = {
    "no JSON": b"hello",
    "a piece": json.dumps(quota_record()).encode()[:-5],
    "a list": b"[1, 2]",
    "a number": b"17",
    "two objects": b"{}{}",
    "an object over lines, of the wrong kind": b'{\n"v":\n1}',
    "nothing": b"",
    "a tombstone": None,
    "not UTF-8": json.dumps(quota_record(client_id="@")).encode().replace(b"@", b"\xff\xfe"),
    "half a surrogate pair": json.dumps(quota_record(client_id="\ud800")).encode(),
    "deep": b"[" * 100_000,
    "a text for a number": json.dumps(quota_record(usage="1")).encode(),
    "a fraction of a request": json.dumps(quota_record(requests=1.5)).encode(),
    "true for a number": json.dumps(quota_record(requests=True)).encode(),
    "a broker out of range": json.dumps(quota_record(broker=1 << 40)).encode(),
    "a number for a name": json.dumps(quota_record(client_id=5)).encode(),
    "no usage": json.dumps(quota_record(usage=None)).encode(),
    "a negative usage": json.dumps(quota_record(usage=-1.0)).encode(),
    "an endless usage": json.dumps(quota_record(usage=float("inf"))).encode(),
    "no number": json.dumps(quota_record(usage=float("nan"))).encode(),
    "a huge usage": json.dumps(quota_record(usage=1e300)).encode(),
    "a time in microseconds": json.dumps(quota_record(ts=START_MS * 1000)).encode(),
    "an empty interval": json.dumps(quota_record(interval_ms=0)).encode(),
    "another version": json.dumps(quota_record(v=2)).encode(),
    "no kind": json.dumps(quota_record(kind=None)).encode(),
    "a lag without an end": json.dumps(lag_record(log_end=None)).encode(),
    "a negative offset": json.dumps(lag_record(committed=-1)).encode(),
    "a lag that is no number": json.dumps(lag_record(lag="7")).encode(),
    "a partition out of range": json.dumps(lag_record(partition=1 << 40)).encode(),
    "a group without a name": json.dumps(group_record(group=None)).encode(),
    "a group with states of another kind": json.dumps(group_record(state_ms=[5])).encode(),
    "a state that is no number": json.dumps(group_record(state_ms={"Stable": "1"})).encode(),
    "a group that is too far behind": json.dumps(group_record(lag=1 << 60)).encode(),
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_a_bad_value_is_counted_and_its_neighbours_are_kept(value):
    assert counts(rows_of([value], Origin(2, [40], Aside(5)))) == {"rejected": 1}
    values = encoded(quota_record(), quota_record(broker=1))
    batches = rows_of([values[0], value, values[1]])
    assert counts(batches) == {"quota": 2, "rejected": 1}
    assert all(batch.schema == ROW_SCHEMA for batch in batches)


def test_a_bad_value_is_put_aside_with_its_place_and_the_reason():
    values = [*encoded(quota_record()), b"x" * 2000, *encoded(quota_record(usage=-1.0))]
    (*_, last) = rows_of(values, Origin(2, [40, 41, 45], Aside(5)))
    (row,) = last.to_pylist()
    first, second = map(json.loads, row["aside"])
    assert first == {"partition": 2, "offset": 41, "reason": "not JSON", "value": "x" * 1024}
    assert (second["offset"], second["reason"]) == (45, "a number is out of range")

    (bounded,) = rows_of([b"x"] * 9, Origin(0, list(range(9)), Aside(3)))
    (row,) = bounded.to_pylist()
    assert (row["records"], len(row["aside"])) == (9, 3)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"[1]", "not a JSON object"),
        (b'{"v": 1, "kind": "quota", "usage": "1"}', "usage: wrong type"),
        (b'{"v": 2}', "v: not version 1"),
        (b'{"v": 1}', "kind: missing"),
        (b'{"v": 1, "kind": "quota"}', "broker: missing"),
    ],
)
def test_why_a_value_is_bad(value, reason):
    assert reason_of(value) == reason


def test_late_records_are_rows_and_are_put_aside_too():
    values = encoded(
        *(quota_record(ts=START_MS + 1000 * second) for second in (1, 11, 10, 0)),
        group_record(ts=START_MS + 5_000),
    )
    values[1] = as_written(quota_record(ts=START_MS + 11_000))
    values[2] = as_written(quota_record(ts=START_MS + 10_000))
    limit = datetime.fromtimestamp(START_MS / 1000 + 10, UTC)
    batches = rows_of(values, Origin(1, [7, 8, 9, 10, 11], Aside(3, limit)))
    assert counts(batches) == {"quota": 4, "group": 1, "late": 0}
    (row,) = batches[-1].to_pylist()
    lines = [json.loads(line) for line in row["aside"]]
    assert [line["offset"] for line in lines] == [7, 9, 10]  # three at most
    assert {line["reason"] for line in lines} == {
        "late: windows before 2026-09-21T14:13:30Z were closed"
    }
    assert json.loads(lines[1]["value"])["ts"] == START_MS + 10_000


def test_the_two_forms_of_a_record_give_the_same_rows():
    """As brokers write it, and with spaces; a field of another kind is not looked at in either."""
    records = [*generated_records(6, seconds=5), quota_record(lag="many")]
    brief = [as_written(each) for each in records]
    assert rows_of(brief) == rows_of(encoded(*records))
    doubled = b'{"v":1,"kind":"quota","kind":"group","ts":5}'
    assert counts(rows_of([doubled, as_written(quota_record())])) == {"quota": 1, "rejected": 1}
    two_lines = as_written(quota_record()) + b"\n{}"
    assert counts(rows_of([two_lines, *brief]))["rejected"] == 1


def test_both_ways_of_parsing_give_the_same_rows():
    values = encoded(*generated_records(5, seconds=20), *generated_group_records(5, seconds=20))
    at_once = pa.Table.from_batches(rows_of(values))
    one_by_one = pa.Table.from_batches(rows_of([*values, b"hello"]))
    assert one_by_one.slice(0, at_once.num_rows - 1) == at_once.slice(0, at_once.num_rows - 1)
    assert counts(rows_of([*values, b"hello"])) == {**counts(rows_of(values)), "rejected": 1}


def test_no_values_give_no_batches():
    assert rows_of([]) == []
    assert counts([count_row("lost", 7)]) == {"lost": 7}
