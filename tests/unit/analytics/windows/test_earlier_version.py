"""Windows of version 1 are taken over, whatever interrupts it."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import GROUP, LAG, QUOTA
from cluster.analytics.windows.manifest import Progress, UnusableDirectory
from cluster.analytics.windows.reading import read_windows
from cluster.analytics.windows.store import InUse, LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.earlier_windows import write_progress, write_windows
from tests.support.examples import stride
from tests.support.metric_records import START_MS, Record
from tests.support.reference_windows import assert_windows, every_kind
from tests.support.window_directories import (
    FailingStore,
    Killed,
    NthChange,
    assert_plain,
    assert_read,
    merge_all,
    piece,
    plain_windows,
    reached,
)

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
KINDS = (QUOTA, GROUP, LAG)


def of_version_1(seed: int, start_ms: int, seconds: int = 12) -> list[Record]:
    names = {kind.name for kind in KINDS}
    found = every_kind(seed, seconds=seconds, start_ms=start_ms)
    return [record for record in found if record["kind"] in names]


FIRST_DAY = of_version_1(1, START_MS)
HOURS = [of_version_1(2, START_MS + DAY_MS), of_version_1(3, START_MS + DAY_MS + 3 * HOUR_MS)]
NEWEST_S = (START_MS + DAY_MS + 3 * HOUR_MS) // 1000 + 10
RECORDS = [*FIRST_DAY, *HOURS[0], *HOURS[1]]


def written(place: Path) -> None:
    """A day in one file, with an hour that a crash left beside it, and a day of hours."""
    write_windows(place, FIRST_DAY, "day")
    write_windows(place, FIRST_DAY, "14")
    for records in HOURS:
        hour = datetime.fromtimestamp(records[0]["ts"] / 1000, UTC).hour
        write_windows(place, records, f"{hour:02}")
    write_progress(place, 5, NEWEST_S)
    (place / "aside").mkdir()
    (place / "aside" / "00000003.jsonl").write_text('{"offset": 1}\n')
    (place / ".follow").mkdir()


def opened(place: Path) -> WindowDirectory:
    return WindowDirectory.open(LocalStore(place))


def top(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_windows_progress_and_what_was_put_aside_are_taken_over(tmp_path):
    written(tmp_path)
    with pytest.raises(UnusableDirectory, match="earlier version: run `rollup` once"):
        read_windows(tmp_path, QUOTA, "10s")
    more = every_kind(4, seconds=20, start_ms=START_MS + 5_000)
    with opened(tmp_path) as directory:
        manifest = directory.manifest
        assert manifest.progress == Progress("metrics", "topic-id", {0: 5}, None)
        assert manifest.newest_s == NEWEST_S
        assert [each.path for each in manifest.quarantined] == ["_meta/aside/00000003.jsonl"]
        assert top(tmp_path) == {"_meta", "kind=quota", "kind=group", "kind=lag"}
        assert_read(tmp_path, RECORDS)
        assert_plain(tmp_path, RECORDS)
        directory.append([piece(directory, more)], reached(6))
        merge_all(directory)
    assert_plain(tmp_path, [*RECORDS, *more])
    opened(tmp_path).close()
    assert_read(tmp_path, [*RECORDS, *more])
    assert (tmp_path / "_meta/aside/00000003.jsonl").read_text() == '{"offset": 1}\n'


def test_early_files_without_progress_and_rates(tmp_path):
    """Their percentiles are the highest rate, which is known."""
    write_windows(tmp_path, FIRST_DAY, "", widths=("10s", "1m"), has_more=False)
    with opened(tmp_path) as directory:
        assert directory.manifest.progress is None
        assert directory.manifest.newest_s == START_MS // 1000 + 10
    for kind in KINDS:
        for width in WIDTHS_S:
            found = read_windows(tmp_path, kind, width)
            same = found.num_rows
            assert same
            if kind is QUOTA:
                assert found["rate_p95"].null_count == 0
                rates = zip(
                    found["rate_p95"].to_pylist(), found["rate_max"].to_pylist(), strict=True
                )
                assert all(low <= high <= low * 1.005 for low, high in rates)
    days = read_windows(tmp_path, QUOTA, "1d", columns=["records", "usage_sum"])
    quotas = [record for record in FIRST_DAY if record["kind"] == "quota"]
    assert sum(days["records"].to_pylist()) == len(quotas)
    assert sum(days["usage_sum"].to_pylist()) == pytest.approx(sum(r["usage"] for r in quotas))


def test_a_window_whose_rates_are_known_in_part(tmp_path):
    write_windows(tmp_path, FIRST_DAY, "14")
    (path,) = tmp_path.glob("width=10s/*/*.parquet")
    table = pq.read_table(path, partitioning=None)
    rates = [None if number % 2 else row for number, row in enumerate(table["rates"].to_pylist())]
    at = table.schema.get_field_index("rates")
    pq.write_table(
        table.set_column(at, table.field(at), [pa.array(rates, table.field(at).type)]), path
    )
    opened(tmp_path).close()
    found = read_windows(tmp_path, QUOTA, "10s").to_pylist()
    for row in found:
        assert sum(count for _, count in row["histogram"]) == row["records"]


def test_invalid_limits_are_not_taken_over(tmp_path):
    """Any client could write them; reports compare rates with limits."""
    write_windows(tmp_path, FIRST_DAY, "14")
    (path,) = tmp_path.glob("width=10s/*/*.parquet")
    table = pq.read_table(path, partitioning=None)
    none = [float("nan"), float("inf"), float("-inf"), -1.0]
    limits = [
        (none[number] if number < len(none) else limit)
        for number, limit in enumerate(table["limit"].to_pylist())
    ]
    at = table.schema.get_field_index("limit")
    pq.write_table(table.set_column(at, table.field(at), [pa.array(limits, pa.float64())]), path)
    opened(tmp_path).close()
    found = read_windows(tmp_path, QUOTA, "10s", columns=["limit", "records"]).to_pylist()
    assert {row["limit"] for row in found} <= {None, *limits[len(none) :]}
    assert sum(row["records"] for row in found) == sum(table["records"].to_pylist())


def test_a_change_that_version_1_had_decided_is_carried_out_first(tmp_path):
    written(tmp_path)
    later = of_version_1(6, START_MS + DAY_MS + 5 * HOUR_MS)
    drafts = tmp_path / ".drafts" / "files"
    write_windows(drafts, later, "19")
    gone = [str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/day=*/14.parquet")]
    removed = [path for path in gone if "2026-09-22" in path]
    assert len(removed) == 9
    (tmp_path / ".drafts" / "commit.json").write_text(json.dumps({"remove": removed}))
    opened(tmp_path).close()
    assert_read(tmp_path, [*FIRST_DAY, *HOURS[1], *later])


def test_a_change_that_version_1_had_not_decided_is_thrown_away(tmp_path):
    written(tmp_path)
    write_windows(tmp_path / ".drafts" / "files", of_version_1(6, START_MS), "14")
    opened(tmp_path).close()
    assert_read(tmp_path, RECORDS)
    assert ".drafts" not in top(tmp_path)


@pytest.mark.slow
def test_a_kill_before_any_change_of_a_file_in_taking_over(tmp_path):
    template = tmp_path / "template"
    records = [each for each in of_version_1(2, START_MS, seconds=3) if each["kind"] == "quota"]
    write_windows(template, records, "14")
    write_progress(template, 5, NEWEST_S)
    for number in range(1, 500, stride()):
        place = tmp_path / f"{number}"
        shutil.copytree(template, place)
        kill = NthChange(number, Killed)
        try:
            directory = WindowDirectory.open(FailingStore(place, kill))
        except Killed:
            assert_once_at_most(place, records)
            directory = opened(place)
        directory.close()
        assert_windows(read_windows(place, QUOTA, "1h"), records, QUOTA, 3600)
        assert_windows(plain_windows(place, QUOTA, "10s"), records, QUOTA, 10)
        assert not any(
            name.startswith(("width", "lag", "groups", "progress")) for name in top(place)
        )
        shutil.rmtree(place)
        if not kill.has_come:
            return
    pytest.fail("it never ended")


def assert_once_at_most(place: Path, records: Sequence[Record]) -> None:
    """Assert that a reader of all files finds no record twice."""
    files = [
        str(path)
        for path in place.rglob("*.parquet")
        if path.relative_to(place).parts[0][0] not in "_."
    ]
    if not files:
        return
    found = pyarrow.dataset.dataset(
        files, partitioning="hive", format="parquet", partition_base_dir=str(place)
    )
    names = found.schema.names
    if "width" not in names or "usage_sum" not in names:
        return
    table = found.to_table()
    for width in ("10s", "1m", "1h"):
        rows = [
            row
            for row in table.select(["width", "records", "client_id"]).to_pylist()
            if row["width"] == width and row["client_id"] is not None
        ]
        count = sum(row["records"] for row in rows)
        assert count <= sum(record["kind"] == "quota" for record in records)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "progress.json is damaged"),
        ('{"version": 9}', "progress.json is of version 9, not 1"),
        ('{"version": 1, "topic": "a", "offsets": []}', "progress.json is damaged"),
    ],
)
def test_progress_that_cannot_be_read_is_refused(tmp_path, text, says):
    written(tmp_path)
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(UnusableDirectory, match=says):
        opened(tmp_path)
    assert "width=10s" in top(tmp_path)


def test_damaged_file_or_change_is_reported_in_one_line(tmp_path):
    written(tmp_path)
    path = next(tmp_path.glob("lag/width=10s/*/day.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    with pytest.raises(UnusableDirectory, match=r"day\.parquet is damaged") as found:
        opened(tmp_path)
    assert "\n" not in str(found.value)
    path.write_bytes(whole)
    (tmp_path / ".drafts").mkdir()
    (tmp_path / ".drafts" / "commit.json").write_text("{")
    with pytest.raises(UnusableDirectory, match=r"commit\.json is damaged: remove"):
        opened(tmp_path)


def test_software_of_version_1_at_work_is_left_alone(tmp_path):
    import os

    written(tmp_path)
    place = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    flock(place, LOCK_EX | LOCK_NB)
    with pytest.raises(InUse):
        opened(tmp_path)
    os.close(place)
    opened(tmp_path).close()


def test_the_newest_window_of_an_impossible_time_closes_nothing(tmp_path):
    far_ms = 4_070_908_800_000
    for place in (tmp_path / "with", tmp_path / "without"):
        write_windows(place, FIRST_DAY, "day")
        write_windows(place, of_version_1(5, far_ms), "day")
    write_progress(tmp_path / "with", 5, far_ms // 1000)
    last_ms = max(record["ts"] - record["interval_ms"] for record in FIRST_DAY)
    for place in (tmp_path / "with", tmp_path / "without"):
        with opened(place) as directory:
            assert directory.manifest.newest_s == last_ms // 10_000 * 10
