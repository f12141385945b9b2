"""The input of one task is counted, quarantined, and written as deltas with the same sums."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra `windows`")

import pyarrow as pa

from cluster.analytics.rollup import pieces
from cluster.analytics.rollup.kafka_records import Block
from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.rollup.pieces import PieceSums, ReadJob, read_pieces, together
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.manifest import Progress
from cluster.analytics.windows.store import LocalStore, open_store
from cluster.analytics.windows.window_sums import first_sums
from tests.support.metric_records import START_MS, as_written, quota_record
from tests.support.reference_windows import every_kind
from tests.support.window_directories import assert_read


def job(output: object, **fields: Any) -> ReadJob:
    known = {"connection": {}, "topic": "metrics", "change": 1, "late_before_s": None}
    return ReadJob(**{**known, "output": str(output), **fields})


def block(records: Sequence[Any], first: int = 0) -> Block:
    return Block(
        [each if isinstance(each, bytes) else as_written(each) for each in records],
        [None if isinstance(each, bytes) else str(each["broker"]).encode() for each in records],
        [START_MS if isinstance(each, bytes) else each["ts"] for each in records],
        list(range(first, first + len(records))),
    )


def added(job: ReadJob, *blocks: Block) -> PieceResult:
    sums = PieceSums(job, open_store(job.output))
    for each in blocks:
        sums.add(3, each)
    return PieceResult.from_json(sums.done().as_json())


@pytest.mark.parametrize("delta_rows", [1, 300, 200_000])
def test_deltas_of_any_number_hold_the_windows_of_all_blocks(tmp_path, monkeypatch, delta_rows):
    monkeypatch.setattr(pieces, "DELTA_ROWS", delta_rows)
    records = every_kind(5, seconds=30)
    parts = [records[at : at + 100] for at in range(0, len(records), 100)]
    result = added(job(tmp_path), *map(block, parts))
    assert (len(result.deltas) == 1) == (delta_rows > 300)
    assert sum(result.counts.values()) == len(records)
    directory = WindowDirectory.open(LocalStore(tmp_path / "windows"))
    result = added(job(tmp_path / "windows"), *map(block, parts))
    directory.append([result], Progress("metrics", None, {3: len(records)}))
    directory.close()
    assert_read(tmp_path / "windows", records)


def test_rejected_and_late_values_are_counted_and_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "QUARANTINED_MOST", 3)
    late_s = START_MS // 1000 + 50
    late = [quota_record(ts=START_MS + 1000 * second) for second in range(1, 6)]
    good = quota_record(ts=START_MS + 60_000)
    other = {**good, "kind": "weather"}
    parts = [block([b"bad", *late, good, other]), block([b"{", b"", b"[]"], first=100)]
    result = added(job(tmp_path, late_before_s=late_s), *parts)
    assert result.counts == {"quota": 6, "other": 1}
    assert result.rejected == {"not JSON": 2, "empty": 1, "not a JSON object": 1}
    assert result.late == 5
    lines = [json.loads(line) for line in result.quarantined]
    assert [(line["offset"], line["reason"].partition(":")[0]) for line in lines] == [
        (0, "not JSON"),
        (1, "late"),
        (2, "late"),
        (3, "late"),
        (100, "not JSON"),
        (101, "empty"),
    ]
    assert {line["partition"] for line in lines} == {3}
    assert lines[1]["value"].encode() == as_written(late[0])
    assert f"{json.loads(result.quarantined[1])['reason']}".endswith("Z were closed")


def test_only_the_start_of_a_long_value_is_put_aside(tmp_path):
    result = added(job(tmp_path), block([b"x" * 5000, b"\xff\xfe"]))
    first, second = (json.loads(line)["value"] for line in result.quarantined)
    assert first == "x" * 1024
    assert second == "\\xff\\xfe"


def test_records_removed_by_retention_are_counted(tmp_path, monkeypatch):
    def reading(_connection, topic, wanted, *, fail_on_data_loss):
        assert topic == "metrics"
        assert not fail_on_data_loss
        yield 7
        yield block([quota_record()])

    monkeypatch.setattr(pieces, "read_range", reading)
    result = read_pieces(job(tmp_path), [OffsetRange(0, 0, 9), OffsetRange(1, 0, 9)])
    assert result.lost == 14
    assert result.counts == {"quota": 2}
    both = together([result, result])
    assert (both.lost, both.counts, len(both.deltas)) == (28, {"quota": 4}, 2)


def test_two_attempts_of_a_task_do_not_write_the_same_file(tmp_path):
    paths = [added(job(tmp_path), block([quota_record()])).deltas[0].path for _ in range(2)]
    assert len(set(paths)) == 2


def test_only_bad_records_of_a_block_are_rejected(tmp_path, monkeypatch):
    def fussy(table, kind):
        if kind.name == "quota" and "odd" in table["client_id"].to_pylist():
            raise pa.ArrowInvalid("too odd\nand more")
        return first_sums(table, kind)

    monkeypatch.setattr(pieces, "first_sums", fussy)
    good = every_kind(5, seconds=20)
    odd = quota_record(client_id="odd")
    records = [*good[:70], odd, *good[70:200], odd, *good[200:]]
    directory = WindowDirectory.open(LocalStore(tmp_path))
    result = added(job(tmp_path), block(records))
    directory.append([result], Progress("metrics", None, {3: len(records)}))
    directory.close()
    assert_read(tmp_path, good)
    assert result.rejected == {"cannot be added: too odd": 2}
    lines = [json.loads(line) for line in result.quarantined]
    assert [line["offset"] for line in lines] == [70, 201]


def test_sums_with_long_names_are_written_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "DELTA_BYTES", 200_000)
    records = [quota_record(client_id=f"{number:032000}") for number in range(30)]
    parts = [block([each]) for each in records]
    result = added(job(tmp_path), *parts)
    assert [delta.rows for delta in result.deltas] == [7, 7, 7, 7, 2]
    assert result.counts == {"quota": 30}
