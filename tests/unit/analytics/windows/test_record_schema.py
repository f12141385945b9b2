"""Which values of the topic are metric records, and why others are rejected."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows import record_schema  # noqa: E402
from cluster.analytics.windows.record_schema import (  # noqa: E402
    CLOCK_SKEW_MS,
    NESTED,
    RECORDS,
    VALUE_BYTES_MAX,
    CheckedValues,
    RecordField,
    Values,
    checked,
    reasons,
)
from cluster.config.broker import METRICS_GROUP_INTERVAL_MS, METRICS_INTERVAL_MS  # noqa: E402
from cluster.config.setting import Setting  # noqa: E402
from tests.support.metric_records import (  # noqa: E402
    START_MS,
    Record,
    as_written,
    group_record,
    lag_record,
    quota_record,
)
from tests.support.reference_windows import every_kind  # noqa: E402

NOW_MS = START_MS + 3_600_000
EXAMPLES: dict[str, Record] = {each["kind"]: each for each in every_kind(2, seconds=40)}
HUGE = 10**400


def look(
    *values: bytes | None, key: bytes | None = b"0", at_ms: int = START_MS + 1000
) -> CheckedValues:
    """Check values with one key and time for all."""
    return checked(Values(values, [key] * len(values), [at_ms] * len(values)), NOW_MS)


def look_at(record: Record, **changes: Any) -> CheckedValues:
    """Check one record with its own key and time, and some fields changed."""
    value = as_written({**record, **changes})
    return checked(Values([value], [str(record["broker"]).encode()], [record["ts"]]), NOW_MS)


def reason(found: CheckedValues) -> str | None:
    """Why the only value was rejected."""
    assert sum(table.num_rows for table in found.tables.values()) == 1 - len(found.rejected)
    return found.rejected[0][1] if found.rejected else None


def numbers() -> list[tuple[str, RecordField]]:
    """Every bounded number of every kind."""
    return [
        (kind, each)
        for kind, fields in RECORDS.items()
        for each in fields
        if each.most and each.name not in ("v", "ts", "buckets", "limit")
    ]


def name(case: object) -> str:
    """The id of a parameter."""
    return case.name if isinstance(case, RecordField) else str(case)


@pytest.mark.parametrize("kind", RECORDS)
def test_each_kind_is_accepted(kind: str) -> None:
    found = look_at(EXAMPLES[kind])
    assert reason(found) is None
    assert found.tables[kind]["at"].to_pylist() == [0]


@pytest.mark.parametrize(("kind", "field"), numbers(), ids=name)
def test_numbers_up_to_their_bounds_and_no_others(kind: str, field: RecordField) -> None:
    record = EXAMPLES[kind]
    if field.name == "broker":
        for broker in (0, field.most):
            value = as_written({**record, "broker": broker})
            found = checked(Values([value], [str(broker).encode()], [record["ts"]]), NOW_MS)
            assert reason(found) is None
    else:
        assert reason(look_at(record, **{field.name: field.most})) is None
    out_of_range = f"{field.name}: out of range"
    for bad in (-1, field.most + 1, -(2**63), 2**63 - 1):
        assert reason(look_at(record, **{field.name: bad})) == out_of_range, bad
    wrong_type = f"{field.name}: wrong type"
    for huge in (1 << 70, HUGE):
        why = out_of_range if field.type == pa.float64() else wrong_type
        assert reason(look_at(record, **{field.name: huge})) == why
    others: list[object] = ["1", True, [1], {}]
    for other in others:
        assert reason(look_at(record, **{field.name: other})) == wrong_type, other
    if field.is_needed:
        assert reason(look_at(record, **{field.name: None})) == f"{field.name}: missing"


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e400", "-0.0000001"])
@pytest.mark.parametrize("field", ["limit", "usage", "rate", "throttle_ms", "muted_ms"])
def test_invalid_numbers_are_rejected(field: str, bad: str) -> None:
    whole = json.dumps({**quota_record(), field: 12345.5}).replace("12345.5", bad)
    assert reason(look(whole.encode())) == f"{field}: out of range"


@pytest.mark.parametrize("limit", [0.0, 1e16, float(2**63 - 1), 1e300, None])
def test_any_limit_that_brokers_take(limit: float | None) -> None:
    """Kafka's own default, 2^63 - 1, stands for a client without a limit."""
    assert reason(look_at(quota_record(), limit=limit)) is None
    assert reason(look_at(quota_record(), limit=1.1e300)) == "limit: out of range"


@pytest.mark.parametrize(
    ("setting", "kinds"),
    [
        (METRICS_INTERVAL_MS, ("quota", "broker", "topic", "latency", "event")),
        (METRICS_GROUP_INTERVAL_MS, ("group", "lag")),
    ],
)
def test_an_interval_may_be_twice_as_long_as_any_that_is_set(
    setting: Setting[int], kinds: tuple[str, ...]
) -> None:
    """A tick is late if the broker has other work, or was stopped for a while."""
    for kind in kinds:
        most = next(int(each.most) for each in RECORDS[kind] if each.name == "interval_ms")
        assert setting.type.parse(str(most // 2)) == most // 2
        with pytest.raises(ValueError, match=str(most // 2 + 1)):
            setting.type.parse(str(most // 2 + 1))


def test_a_broker_with_more_than_a_million_messages_a_second() -> None:
    record = EXAMPLES["broker"]
    assert reason(look_at(record, values={"MessagesInPerSec": 25e6})) is None


@pytest.mark.parametrize(("kind", "outer"), [("group", "state_ms"), ("broker", "values")])
def test_numbers_within_objects(kind: str, outer: str) -> None:
    record = EXAMPLES[kind]
    for inner in NESTED[outer]:
        for bad in (-1, inner.most * 2 + 1):
            found = look_at(record, **{outer: {inner.name: bad}})
            assert reason(found) == f"{outer}.{inner.name}: out of range"
        assert reason(look_at(record, **{outer: {inner.name: inner.most}})) is None
        assert reason(look_at(record, **{outer: {inner.name: None}})) is None
    assert reason(look_at(record, **{outer: 1})) == f"{outer}: wrong type"


def test_histograms_of_latencies() -> None:
    record = EXAMPLES["latency"]
    lists: list[list[int]] = [[], [1], [0] * 26, [10**9]]
    for good in lists:
        assert reason(look_at(record, buckets=good)) is None
    beyond: list[list[int | None]] = [[0] * 27, [-1], [10**9 + 1], [None], [1, None]]
    for bad in beyond:
        assert reason(look_at(record, buckets=bad)) == "buckets: out of range", bad
    others: list[object] = [[1.5], ["1"], 1, {"0": 1}]
    for other in others:
        assert reason(look_at(record, buckets=other)) == "buckets: wrong type", other
    assert reason(look_at(record, buckets=None)) == "buckets: missing"


@pytest.mark.parametrize(
    ("field", "bad", "why"),
    [
        ("quota", "other", "unknown"),
        ("quota", None, "missing"),
        ("rule", "mine", "unknown"),
        ("user", "x" * 32_768, "too long"),
        ("client_id", "\u00e9" * 16_384, "too long"),
        ("client_id", 7, "wrong type"),
    ],
)
def test_texts_are_checked(field: str, bad: object, why: str) -> None:
    assert reason(look_at(quota_record(), **{field: bad})) == f"{field}: {why}"


def test_texts_that_are_long_or_missing_are_taken() -> None:
    assert reason(look_at(quota_record(), client_id="x" * 32_767, user=None, rule=None)) is None


def test_the_time_of_a_record_is_near_that_in_the_log() -> None:
    record = quota_record()
    ts = record["ts"]
    for skew, is_near in ((0, True), (CLOCK_SKEW_MS, True), (CLOCK_SKEW_MS + 1, False)):
        for side in (-1, 1):
            found = look(as_written(record), at_ms=ts + side * skew)
            assert (reason(found) is None) == is_near
    assert reason(look(as_written(record), at_ms=-1)) == "ts: not the time of the record in the log"


@pytest.mark.parametrize(
    ("ts", "why"),
    [
        (4_070_908_800_000, "in the future"),
        (NOW_MS + CLOCK_SKEW_MS + 1, "in the future"),
        (1_577_836_799_999, "before 2020"),
        (1, "before 2020"),
    ],
)
def test_impossible_times_are_rejected(ts: int, why: str) -> None:
    for record in (quota_record(ts=ts), lag_record(ts=ts), group_record(ts=ts)):
        assert reason(look(as_written(record), at_ms=ts)) == f"ts: {why}"


def test_clock_five_minutes_ahead_is_accepted() -> None:
    ts = NOW_MS + CLOCK_SKEW_MS
    assert reason(look(as_written(quota_record(ts=ts)), at_ms=ts)) is None


@pytest.mark.parametrize("key", [None, b"", b"1", b"00", b"+0", b"0 ", b"\xff"])
def test_the_key_is_the_broker(key: bytes | None) -> None:
    assert reason(look(as_written(quota_record()), key=key)) == "key: not the broker of the record"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b" ", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b"{}", "v: not version 1"),
        (b'{"v":2,"kind":"quota"}', "v: not version 1"),
        (b'{"v":1}', "kind: missing"),
        (b'{"v":1,"kind":7}', "kind: wrong type"),
        (b"[" * 100_000, "not JSON"),
        (b"x" * (VALUE_BYTES_MAX + 1), "longer than 262,144 bytes"),
        (b'{"v":1,"kind":"quota","client_id":"\xff"}', "not JSON"),
        (b'{"v":1,"kind":"quota","client_id":"\\ud800"}', "client_id: wrong type"),
    ],
)
def test_other_values_are_rejected_with_a_reason(value: bytes | None, why: str) -> None:
    assert reason(look(value)) == why


def test_kinds_of_later_versions_are_counted() -> None:
    found = look(b'{"v":1,"kind":"share","ts":"whenever"}', b'{"kind":"other","v":1}')
    assert (found.others, found.rejected) == (2, [])


def test_good_records_beside_all_sorts_of_others() -> None:
    records = every_kind(3, seconds=20)
    odd = [
        b"{", b" ", b"[]", b"", None, b'{"a":1}{"a":2}', b'{"v":1,"kind":"quota"',
        b'}{"v":1,"kind":"lag"}', as_written(quota_record(usage=-1)), b"\xff",
        as_written(quota_record()) + as_written(quota_record()),
        b'{"@":1,"v":1,"kind":"quota"}', b"x" * (VALUE_BYTES_MAX + 1),
    ]  # fmt: skip
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    times: list[int] = []
    for number, record in enumerate(records):
        for value in [odd[number % len(odd)]] if number % 3 == 0 else []:
            values.append(value)
            keys.append(b"0")
            times.append(START_MS)
        values.append(as_written(record))
        keys.append(str(record["broker"]).encode())
        times.append(record["ts"])
    found = checked(Values(values, keys, times), NOW_MS)
    rows = [(at, kind) for kind, table in found.tables.items() for at in table["at"].to_pylist()]
    good = {at for at, _ in rows}
    assert len(rows) == len(records)
    assert [kind for _, kind in sorted(rows)] == [each["kind"] for each in records]
    assert [at for at, _ in found.rejected] == sorted(set(range(len(values))) - good)
    assert sum(reasons(found.rejected).values()) == len(values) - len(records)


def test_names_with_braces_are_no_reason_to_reject() -> None:
    records = [quota_record(client_id=name) for name in ("{", "}", "{}", "}{", "a")]
    found = look(*map(as_written, records))
    assert found.tables["quota"]["client_id"].to_pylist() == ["{", "}", "{}", "}{", "a"]


def test_two_objects_in_one_value_are_not_made_up_for_by_an_empty_one() -> None:
    one = as_written(quota_record())
    found = look(one + one, b" ", one)
    assert found.tables["quota"]["at"].to_pylist() == [2]
    assert [at for at, _ in found.rejected] == [0, 1]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.sampled_from(sorted(RECORDS)), st.data())
def test_a_block_is_judged_as_its_values_are(kind: str, data: st.DataObject) -> None:
    names = [each.name for each in RECORDS[kind]]
    values: list[bytes | None] = []
    for _ in range(data.draw(st.integers(1, 5))):
        changes = data.draw(st.dictionaries(st.sampled_from(names), json_values, max_size=2))
        values.append(as_written({**EXAMPLES[kind], **changes}))
    key = str(EXAMPLES[kind]["broker"]).encode()
    at_ms = EXAMPLES[kind]["ts"]
    together = look(*values, key=key, at_ms=at_ms)
    alone = [look(value, key=key, at_ms=at_ms) for value in values]
    assert together.rejected == [
        (at, why) for at, found in enumerate(alone) for _, why in found.rejected
    ]
    assert together.others == sum(found.others for found in alone)


def test_late_records_are_named() -> None:
    early, late = quota_record(ts=START_MS + 60_000), quota_record(ts=START_MS + 30_000)
    found = look(as_written(early), as_written(late), at_ms=START_MS + 30_000)
    assert found.late((START_MS + 40_000) * 1000) == [1]


def test_malformed_value_slows_down_few_others(monkeypatch):
    looked_at = 0
    row = record_schema._row  # noqa: SLF001

    def counted(value: bytes) -> dict[str, Any] | str:
        nonlocal looked_at
        looked_at += 1
        return row(value)

    monkeypatch.setattr(record_schema, "_row", counted)
    good = as_written(quota_record())
    values = [good] * 3_000
    for at in (0, 1_234, 2_999):
        values[at] = b'{"v":1,"kind":"quota",'
    found = look(*values)
    assert found.rejected == [(0, "not JSON"), (1_234, "not JSON"), (2_999, "not JSON")]
    assert found.tables["quota"]["at"].to_pylist() == [
        at for at, value in enumerate(values) if value is good
    ]
    assert looked_at <= 3 * 50
