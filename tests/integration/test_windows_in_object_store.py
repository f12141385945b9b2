"""A directory of windows in an object store: written, merged, read, and by one writer."""

import contextlib
from collections.abc import Iterator
from datetime import timedelta

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow.dataset
import pyarrow.fs

from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import LAG
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.merge import run_merge
from cluster.analytics.windows.reading import days_by_width, read_windows
from cluster.analytics.windows.store import RemoteStore, open_store
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.metric_records import START_MS
from tests.support.object_store import need_object_store, object_store
from tests.support.reference_windows import assert_windows, every_kind
from tests.support.window_directories import assert_read, piece, reached

pytestmark = pytest.mark.slow
DAY_MS = 86_400_000


class Undecided(Exception):
    pass


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    need_object_store()
    with object_store() as place:
        yield place


def merge_all(directory: WindowDirectory) -> None:
    """Merge like Spark's executors, which know nothing but the place."""
    place = directory.store.place
    directory.merge(lambda tasks: [run_merge(place, task) for task in tasks], everything=True)


def test_windows_are_written_merged_and_read(bucket: str) -> None:
    place = bucket.format("a/folder")
    first = every_kind(1, seconds=20)
    second = every_kind(2, seconds=20, start_ms=START_MS + 5_000)
    assert read_windows(place, LAG, "10s").num_rows == 0
    with WindowDirectory.open(open_store(place)) as directory:
        directory.append([piece(directory, first, quarantined=["a line"])], reached(1))
        merge_all(directory)
        directory.append([piece(directory, second)], reached(2))
        assert_read(place, [*first, *second])
    with WindowDirectory.open(open_store(place)) as directory:
        assert directory.manifest.progress == reached(2)
        merge_all(directory)
    assert_read(place, [*first, *second])
    files, base = pyarrow.fs.FileSystem.from_uri(place)
    found = pyarrow.dataset.dataset(base, filesystem=files, partitioning="hive", format="parquet")
    field = pyarrow.dataset.field
    lags = found.to_table(filter=(field("kind") == "lag") & (field("width") == "10s"))
    order = [(name, "ascending") for name in LAG.key_names]
    assert_windows(lags.select(LAG.names).sort_by(order), [*first, *second], LAG, 10)
    with WindowDirectory.open(open_store(place)) as directory:
        keep = dict.fromkeys(WIDTHS_S, timedelta())
        directory.forget(keep, days_by_width(place, LAG)["1d"][-1] + timedelta(days=1))
        assert open_store(place).list("kind=lag") == []
    assert open_store(place).list() == ["_meta/aside/00000001.jsonl", "_meta/manifest.json"]


def test_the_second_of_two_writers_goes_on_and_the_first_is_told(bucket: str) -> None:
    place = bucket.format("two")
    with WindowDirectory.open(open_store(place)) as first:
        first.append([piece(first, every_kind(1, seconds=5))], reached(1))
        waiting = piece(first, every_kind(2, seconds=5))
        with WindowDirectory.open(open_store(place)) as second:
            for _ in range(2):
                with pytest.raises(UnusableDirectory, match="another rollup is at work in s3://"):
                    first.append([waiting], reached(2))
            second.append([piece(second, every_kind(2, seconds=5))], reached(2))
            merge_all(second)
    assert_read(place, [*every_kind(1, seconds=5), *every_kind(2, seconds=5)])


def test_files_are_written_replaced_moved_and_removed(bucket: str) -> None:
    store = open_store(bucket.format("files"))
    assert isinstance(store, RemoteStore)
    assert store.list() == []
    assert not store.exists("a/b")
    store.write_bytes("a/b", b"one")
    store.write_bytes("a/b", b"two")
    store.write_bytes("a/c", b"three")
    with contextlib.suppress(Undecided), store.open_output("a/c") as file:
        file.write(b"half")
        raise Undecided
    assert store.read_bytes("a/c") == b"three"
    store.move("a/b", "a/c")
    assert store.read_bytes("a/c") == b"two"
    assert store.list("a") == ["a/c"]
    with pytest.raises(FileNotFoundError):
        store.move("a/b", "a/c")
    with pytest.raises(FileNotFoundError):
        store.read_bytes("a/b")
    store.remove("a/c")
    store.remove("a/c")
    assert store.list() == []


def test_keys_are_in_no_message(bucket: str) -> None:
    place = bucket.format("secrets")
    with WindowDirectory.open(open_store(place)) as directory:
        directory.append([piece(directory, every_kind(1, seconds=5))], reached(1))
        (delta,) = directory.manifest.deltas
        directory.store.remove(delta.path)
        with pytest.raises(
            UnusableDirectory, match=r"s3://windows/secrets/_open/.* is missing"
        ) as found:
            read_windows(place, LAG, "10s")
        assert "a-secret" not in str(found.value)


def test_a_bucket_that_is_not_there_is_one_line(bucket: str) -> None:
    place = bucket.format("x").replace("@windows/", "@nowhere/")
    with pytest.raises(UnusableDirectory) as found:
        WindowDirectory.open(open_store(place))
    assert "\n" not in str(found.value)
    assert "s3://nowhere/x" in str(found.value)
