"""Windows of impossible times are removed, of every kind and width, and others stay."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows import merge_plans
from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import TIMESTAMP, WINDOW_KINDS
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.store import LocalStore
from tests.support.metric_records import START_MS, Record
from tests.support.reference_windows import every_kind
from tests.support.window_directories import (
    assert_plain,
    assert_read,
    merge_all,
    piece,
    reached,
    sums_of,
)

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NOW = datetime.fromtimestamp(START_MS / 1000, UTC)
LIMIT_MS = START_MS + 600_000


def began_window_ms(record: Record) -> int:
    began_ms = int(record["ts"] - record["interval_ms"])
    return began_ms - began_ms % 10_000


def is_possible(record: Record) -> bool:
    return began_window_ms(record) <= LIMIT_MS


def spread() -> list[Record]:
    """Records of possible times and of impossible ones."""
    return [
        *every_kind(1, seconds=30),
        *every_kind(2, seconds=60, start_ms=LIMIT_MS - 30_000),
        *every_kind(3, seconds=10, start_ms=START_MS + 2 * HOUR_MS),
        *every_kind(4, seconds=10, start_ms=START_MS + DAY_MS),
    ]


def of_other_times(directory: WindowDirectory, name: str, by: timedelta) -> PieceResult:
    """A delta of windows whose times no reader accepts today."""
    sums = {
        kind: table.set_column(
            0, table.field(0), pc.add(table["window_start"], pa.scalar(by)).cast(TIMESTAMP)
        )
        for kind, table in sums_of(every_kind(5, seconds=10)).items()
    }
    delta = write_delta(directory.store, delta_path(directory.next_change, name), sums)
    assert delta is not None
    return PieceResult([delta], {}, {})


@pytest.mark.parametrize(
    "merged",
    ["half", *(pytest.param(each, marks=pytest.mark.no_cover) for each in ("all", "none"))],
)
def test_repair_removes_only_impossible_windows(tmp_path: Path, merged: str) -> None:
    records = spread()
    possible = [each for each in records if is_possible(each)]
    with WindowDirectory.open(LocalStore(tmp_path)) as directory:
        parts = [records[::2], records[1::2]] if merged == "half" else [records]
        for number, part in enumerate(parts):
            pieces = [
                piece(directory, part),
                of_other_times(directory, "a", timedelta(days=10_000)),
                of_other_times(directory, "b", timedelta(days=-5_000)),
            ]
            directory.append(pieces, reached(number))
            if merged == "all" or (merged == "half" and number == 0):
                merge_all(directory)
        gone = directory.repair(NOW)
        assert set(gone) == {kind.name for kind in WINDOW_KINDS}
        assert_read(tmp_path, possible)
        newest_ms = max(map(began_window_ms, possible))
        assert directory.manifest.newest_s == newest_ms // 1000
        change = directory.next_change
        assert directory.repair(NOW) == {}
        assert directory.next_change == change
        merge_all(directory)
        assert_plain(tmp_path, possible)
        more = every_kind(7, seconds=60, start_ms=START_MS + HOUR_MS)
        directory.append([piece(directory, more)], reached(9))
        merge_all(directory)
    assert_read(tmp_path, [*possible, *more])
    assert_plain(tmp_path, [*possible, *more])


@pytest.mark.no_cover
@pytest.mark.parametrize("is_merged", [True, False])
def test_an_hour_that_is_cut_into_slices_meanwhile_is_known_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_merged: bool
) -> None:
    """A window would be in two files if the next merge looked for it in others."""
    records = spread()
    later = every_kind(6, seconds=30, start_ms=LIMIT_MS - 60_000)
    with WindowDirectory.open(LocalStore(tmp_path)) as directory:
        directory.append([piece(directory, records)], reached(1))
        if is_merged:
            merge_all(directory)
        monkeypatch.setattr(merge_plans, "UNIT_ROWS", 100)
        assert directory.repair(NOW)
        assert directory.manifest.hours
        directory.append([piece(directory, later)], reached(2))
        merge_all(directory)
    expected = [*(each for each in records if is_possible(each)), *later]
    assert_read(tmp_path, expected)
    assert_plain(tmp_path, expected)


def test_repair_removes_everything_when_all_is_impossible(tmp_path: Path) -> None:
    with WindowDirectory.open(LocalStore(tmp_path)) as directory:
        directory.append([piece(directory, every_kind(1, seconds=10))], reached(1))
        merge_all(directory)
        assert directory.repair(NOW - timedelta(days=1))
        assert directory.manifest.newest_s is None
        assert directory.manifest.progress == reached(1)
    assert not list(tmp_path.glob("kind=*"))


def test_a_directory_without_impossible_windows_is_left_alone(tmp_path: Path) -> None:
    with WindowDirectory.open(LocalStore(tmp_path)) as directory:
        assert directory.repair(NOW) == {}
        directory.append([piece(directory, every_kind(1, seconds=10))], reached(1))
        merge_all(directory)
        before = directory.manifest
        assert directory.repair(NOW + timedelta(days=300)) == {}
        assert directory.manifest is before
