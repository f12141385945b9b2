"""The files that Spark reads for recommendations contain each window once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow.fs
import pyarrow.parquet as pq

from cluster.analytics.reports.recommendations import Question, window_files
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.store import LocalStore, RemoteStore, Store
from tests.support.metric_records import START_MS, quota_record
from tests.support.window_directories import merge_all, piece, reached

HOUR_S = 3600
START = datetime.fromtimestamp(START_MS / 1000, UTC)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three hours: one merged, one merged but with more records in deltas, one in deltas alone."""
    place = tmp_path / "rollup"
    with WindowDirectory.open(LocalStore(place)) as directory:
        for number, hours in enumerate(((0, 1), (1, 2))):
            records = [
                quota_record(ts=START_MS + 1000 * (hour * HOUR_S + 10 * number + 1))
                for hour in hours
            ]
            directory.append([piece(directory, records)], reached(number))
            if number == 0:
                merge_all(directory)
    return place


def question(store: Store, hours: int = 9) -> Question:
    return Question(store, START - timedelta(hours=1), START + timedelta(hours=hours))


def starts_in(paths: list[Path]) -> list[int]:
    """The starts of their windows in seconds after the start."""
    starts = [
        start for path in paths for start in pq.ParquetFile(path).read()["window_start"].to_pylist()
    ]
    return sorted(int((start - START).total_seconds()) for start in starts)


def test_visible_files_are_read_where_they_are_and_hours_with_deltas_from_copies(place, tmp_path):
    paths = window_files(question(LocalStore(place)), tmp_path)
    assert [path.parent == tmp_path for path in paths] == [False, True, True]
    assert starts_in(paths) == [0, HOUR_S, HOUR_S + 10, 2 * HOUR_S + 10]
    assert "histogram" in pq.read_schema(paths[-1]).names


def test_files_of_other_hours_are_left_alone(place, tmp_path):
    for path in place.glob("_open/*.parquet"):
        path.write_bytes(b"not to be read")
    paths = window_files(question(LocalStore(place), hours=0), tmp_path)
    assert paths == [place / "kind=quota/width=10s/day=2026-09-21/14.parquet"]


def test_windows_of_an_object_store_are_copied(place, tmp_path):
    store = RemoteStore(pyarrow.fs.LocalFileSystem(), str(place), "s3://bucket/rollup")
    paths = window_files(question(store), tmp_path)
    assert {path.parent for path in paths} == {tmp_path}
    assert starts_in(paths) == [0, HOUR_S, HOUR_S + 10, 2 * HOUR_S + 10]
    assert window_files(question(store, hours=-1), tmp_path) == []
