"""The columns and values of the data source's rows follow from the schema of records."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.rollup.kafka_records import Block  # noqa: E402
from cluster.analytics.source.options import (  # noqa: E402
    DROPMALFORMED,
    FAILFAST,
    PERMISSIVE,
)
from cluster.analytics.source.rows import (  # noqa: E402
    RENAMED,
    Wanted,
    columns,
    rows_of,
)
from cluster.analytics.windows.kinds import KIND_OF  # noqa: E402
from cluster.analytics.windows.record_schema import NESTED, RECORDS  # noqa: E402
from cluster.analytics.windows.spark_types import ddl  # noqa: E402
from cluster.model.errors import UserError  # noqa: E402
from tests.support.metric_records import (  # noqa: E402
    START_MS,
    Record,
    as_written,
    quota_record,
)
from tests.support.reference_windows import every_kind  # noqa: E402

NOW_MS = START_MS + 3_600_000
PLACE = ["partition", "offset", "timestamp"]
WIDE = Wanted(None, DROPMALFORMED)


def block_of(values: Iterable[Record | bytes | None]) -> Block:
    block = Block([], [], [], [])
    for offset, value in enumerate(values):
        if isinstance(value, dict):
            block.values.append(as_written(value))
            block.keys.append(str(value["broker"]).encode())
            block.timestamps_ms.append(value["ts"])
        else:
            block.values.append(value)
            block.keys.append(None)
            block.timestamps_ms.append(-1)
        block.offsets.append(offset)
    return block


def rows(values: Iterable[Record | bytes | None], wanted: Wanted = WIDE) -> list[dict[str, Any]]:
    batch = rows_of(block_of(values), 3, wanted, NOW_MS)
    assert batch.schema == columns(wanted)
    found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return found


def plain(record: Record, offset: int) -> dict[str, Any]:
    """The row of a record as plain Python makes it, without columns of other kinds."""
    ts = datetime.fromtimestamp(record["ts"] / 1000, UTC)
    row: dict[str, Any] = {"partition": 3, "offset": offset, "timestamp": ts}
    for field in RECORDS[record["kind"]]:
        value = record.get(field.name)
        if field.name == "ts":
            row["ts"] = ts
            began_ms = record["ts"] - record["interval_ms"]
            row["interval_start"] = datetime.fromtimestamp(began_ms / 1000, UTC)
        elif field.name != "v":
            row[RENAMED.get(field.name, field.name)] = value
    return row


@pytest.mark.parametrize("kind", RECORDS)
def test_columns_are_the_place_and_the_fields_of_the_kind(kind: str):
    found = columns(Wanted(kind, DROPMALFORMED)).names
    fields = [RENAMED.get(field.name, field.name) for field in RECORDS[kind]]
    fields.remove("v")
    assert sorted(found) == sorted([*PLACE, "interval_start", *fields])
    assert found[:3] == PLACE


def test_a_wide_row_has_the_columns_of_every_kind_once():
    found = columns(WIDE)
    of_kinds = {name for kind in RECORDS for name in columns(Wanted(kind, DROPMALFORMED)).names}
    assert set(found.names) == of_kinds
    assert len(found.names) == len(of_kinds)
    for kind in RECORDS:
        for field in columns(Wanted(kind, DROPMALFORMED)):
            assert found.field(field.name) == field


@pytest.mark.parametrize("kind", RECORDS)
def test_keys_have_the_types_that_windows_have(kind: str):
    found = columns(Wanted(kind, DROPMALFORMED))
    for name in KIND_OF[kind].keys:
        assert found.field(RENAMED.get(name, name)).type == KIND_OF[kind].schema.field(name).type


def test_sql_declares_every_column():
    declared = ddl(columns(Wanted(None, PERMISSIVE)))
    assert declared.startswith(
        "`partition` int, `offset` bigint, `timestamp` timestamp, `kind` str"
    )
    assert "`values` map<string,double>" in declared
    assert "`state_ms` map<string,bigint>" in declared
    assert "`buckets` array<bigint>" in declared
    assert declared.endswith("`_reason` string, `value` binary")


@pytest.mark.parametrize("kind", RECORDS)
def test_rows_of_a_kind_are_its_records_in_order(kind: str):
    records = every_kind(4, seconds=30)
    random.Random(1).shuffle(records)
    expected = [plain(record, at) for at, record in enumerate(records) if record["kind"] == kind]
    assert expected
    assert rows(records, Wanted(kind, DROPMALFORMED)) == expected


def test_wide_rows_are_the_records_of_all_kinds_in_order():
    records = every_kind(5, seconds=20)
    random.Random(2).shuffle(records)
    found = rows(records)
    assert len(found) == len(records)
    for at, (row, record) in enumerate(zip(found, records, strict=True)):
        expected = plain(record, at)
        assert {name: row[name] for name in expected} == expected
        assert all(row[name] is None for name in row.keys() - expected.keys())


def test_a_brokers_values_are_all_finite_numbers_that_it_wrote():
    record = next(each for each in every_kind(1, seconds=1) if each["kind"] == "broker")
    record["values"] = {"LeaderCount": 3, "MyGauge": 1.5, "Huge": 10**400, "Text": "x", "No": None}
    (row,) = rows([record])
    assert row["values"] == {"LeaderCount": 3.0, "MyGauge": 1.5}


def test_a_brokers_record_with_a_field_that_python_cannot_parse_has_the_known_numbers():
    record = next(each for each in every_kind(1, seconds=1) if each["kind"] == "broker")
    block = block_of([record])
    deep = b"[" * 50_000 + b"]" * 50_000
    block.values[0] = b'{"deep":' + deep + b"," + as_written(record)[1:]
    (row,) = rows_of(block, 0, Wanted("broker", DROPMALFORMED), NOW_MS).to_pylist()
    known = {field.name for field in NESTED["values"]}
    assert dict(row["values"]) == {
        name: number for name, number in record["values"].items() if name in known
    }


def test_bad_values_are_left_out_given_or_refused():
    good, negative = quota_record(), quota_record(requests=-1)
    values: list[Record | bytes | None] = [b"bad", good, None, negative]
    assert [row["offset"] for row in rows(values)] == [1]
    found = rows(values, Wanted("quota", PERMISSIVE))
    assert [row["_reason"] for row in found] == [
        "not JSON",
        None,
        "empty",
        "requests: out of range",
    ]
    assert [row["value"] for row in found] == [b"bad", None, None, as_written(negative)]
    assert [row["timestamp"] is None for row in found] == [True, False, True, False]
    assert found[0]["kind"] is None
    line = r"^partition 3 has no metric record at offset 0: not JSON$"
    with pytest.raises(UserError, match=line):
        rows(values, Wanted(None, FAILFAST))
    assert len(rows([good], Wanted(None, FAILFAST))) == 1


def test_bad_values_are_given_whatever_the_kind():
    (row,) = rows([quota_record(), b"bad"], Wanted("event", PERMISSIVE))
    assert (row["offset"], row["value"]) == (1, b"bad")


def test_a_block_without_a_row_gives_an_empty_batch():
    assert rows([b"bad"]) == []
    assert rows([{**quota_record(), "kind": "of-tomorrow"}], Wanted(None, PERMISSIVE)) == []
