"""Any reader of Parquet finds each window once, whatever state the directory is in."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compat.window_readers import run_readers
from tests.support.metric_records import START_MS, Record
from tests.support.reference_windows import assert_windows, every_kind
from tests.support.spark import need_spark

need_spark()

import pyarrow as pa  # noqa: E402
import pyarrow.dataset  # noqa: E402

from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.kinds import WINDOW_KINDS  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402
from cluster.analytics.windows.widths import WIDTHS_S  # noqa: E402
from tests.support.window_directories import (  # noqa: E402
    FailingStore,
    Killed,
    merge_all,
    piece,
    reached,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spark]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
EARLY = [
    *every_kind(1, seconds=70),
    *every_kind(2, seconds=20, start_ms=START_MS + HOUR_MS),
    *every_kind(3, seconds=20, start_ms=START_MS + DAY_MS),
]
LATE = every_kind(4, seconds=50)
"""Of an hour that EARLY has, too."""

Made = tuple[Path, list[Record]]


def append(directory: WindowDirectory, records: list[Record], offset: int) -> None:
    directory.append([piece(directory, records)], reached(offset))


def merged(place: Path) -> list[Record]:
    with WindowDirectory.open(LocalStore(place)) as directory:
        append(directory, EARLY, 1)
        merge_all(directory)
    return EARLY


def with_deltas(place: Path) -> list[Record]:
    """Records that have not been merged are in no window that others read."""
    merged(place)
    with WindowDirectory.open(LocalStore(place)) as directory:
        append(directory, LATE, 2)
    assert list((place / "_open").glob("*.parquet"))
    return EARLY


def killed_before_the_moves(place: Path) -> list[Record]:
    """The change is decided, and nothing of it is in place."""
    with_deltas(place)

    def kill(operation: str, path: str) -> None:
        if operation == "move" and path.startswith("kind="):
            raise Killed

    with (
        pytest.raises(Killed),
        WindowDirectory.open(FailingStore(place, kill)) as directory,
    ):
        merge_all(directory)
    assert list((place / "_meta" / "drafts").rglob("*.parquet"))
    return EARLY


def opened_after_a_kill(place: Path) -> list[Record]:
    killed_before_the_moves(place)
    with WindowDirectory.open(LocalStore(place)) as directory:
        merge_all(directory)
    return [*EARLY, *LATE]


def with_late_records(place: Path) -> list[Record]:
    """Records of a merged hour come in any order, and are merged into it again."""
    merged(place)
    shuffled = LATE.copy()
    random.Random(1).shuffle(shuffled)
    with WindowDirectory.open(LocalStore(place)) as directory:
        for offset, start in enumerate(range(0, len(shuffled), 700), 2):
            append(directory, shuffled[start : start + 700], offset)
            merge_all(directory)
    return [*EARLY, *LATE]


STATES: list[Callable[[Path], list[Record]]] = [
    merged,
    with_deltas,
    killed_before_the_moves,
    opened_after_a_kill,
    with_late_records,
]
READERS = ("pandas", "duckdb", "polars")


@pytest.fixture(scope="module")
def directories(tmp_path_factory) -> dict[str, Made]:
    """A directory in each state, with the records of its windows."""
    root = tmp_path_factory.mktemp("windows")
    return {make.__name__: (root / make.__name__, make(root / make.__name__)) for make in STATES}


@pytest.fixture(scope="module")
def found(directories, tmp_path_factory) -> dict[tuple[str, str], Path]:
    """Files of all that a reader found, by reader and state."""
    root = tmp_path_factory.mktemp("found")
    files = {
        (reader, state): root / f"{reader}-{state}.arrow"
        for reader in READERS
        for state in directories
    }
    run_readers(
        [
            {"read": reader, "place": str(directories[state][0]), "to": str(to)}
            for (reader, state), to in files.items()
        ]
    )
    return files


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


def assert_all_windows(whole: pa.Table, records: list[Record]) -> None:
    """The table has the windows of these records of all kinds and widths, and nothing else."""
    rows = 0
    for kind in WINDOW_KINDS:
        of_kind = whole.filter(pa.compute.equal(whole["kind"].cast(pa.string()), kind.name))
        for width, width_s in WIDTHS_S.items():
            windows = of_kind.filter(pa.compute.equal(of_kind["width"].cast(pa.string()), width))
            order = [(name, "ascending") for name in kind.key_names]
            table = windows.select(kind.names).sort_by(order)
            assert_windows(table.cast(kind.schema), records, kind, width_s)
            rows += table.num_rows
    assert rows == whole.num_rows


@pytest.mark.parametrize("state", [make.__name__ for make in STATES])
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_finds_each_window_once(directories, found, reader, state):
    _, records = directories[state]
    with pa.memory_map(str(found[reader, state])) as file:
        assert_all_windows(pa.ipc.open_file(file).read_all(), records)


@pytest.mark.parametrize("state", [make.__name__ for make in STATES])
def test_pyarrow_finds_each_window_once(directories, state):
    place, records = directories[state]
    whole = pyarrow.dataset.dataset(place, partitioning="hive").to_table()
    assert_all_windows(whole, records)


@pytest.mark.parametrize("state", [make.__name__ for make in STATES])
def test_spark_finds_each_window_once(spark, directories, state):
    place, records = directories[state]
    assert_all_windows(spark.read.parquet(str(place)).toArrow(), records)
