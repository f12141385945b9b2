"""Directories of windows for tests: records go in, and what any reader sees is compared."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import KIND_OF, WINDOW_KINDS, WindowKind
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.manifest import Progress
from cluster.analytics.windows.merge import MergeResult, MergeTask, merge_in, run_merge
from cluster.analytics.windows.reading import read_windows
from cluster.analytics.windows.record_schema import Values, checked
from cluster.analytics.windows.store import LocalStore, Store
from cluster.analytics.windows.widths import WIDTHS_S
from cluster.analytics.windows.window_sums import coarser, first_sums, joined, windows_of
from tests.support.metric_records import Record, as_written
from tests.support.reference_windows import assert_rows, reference_windows

FAR_MS = 10**13


def sums_of(records: Sequence[Record]) -> dict[str, pa.Table]:
    """The sums of records, by kind."""
    found = checked(
        Values(
            [as_written(each) for each in records],
            [str(each["broker"]).encode() for each in records],
            [each["ts"] for each in records],
        ),
        FAR_MS,
    )
    assert found.rejected == []
    first = {kind: first_sums(table, KIND_OF[kind]) for kind, table in found.tables.items()}
    return joined([first])


def piece(
    directory: WindowDirectory,
    records: Sequence[Record],
    name: str = "0",
    quarantined: Sequence[str] = (),
) -> PieceResult:
    """A piece of a topic that holds these records, its delta written."""
    path = delta_path(directory.next_change, name)
    delta = write_delta(directory.store, path, sums_of(records))
    counts: dict[str, int] = {}
    for record in records:
        counts[record["kind"]] = counts.get(record["kind"], 0) + 1
    return PieceResult([delta] if delta else [], counts, {}, quarantined=tuple(quarantined))


def reached(offset: int) -> Progress:
    """A progress of one partition."""
    return Progress("metrics", "topic-id", {0: offset}, "cluster-id")


def runner(store: Store) -> Callable[[Sequence[MergeTask]], list[MergeResult]]:
    """Carries out merges here, and takes their results through JSON as executors do."""

    def run(tasks: Sequence[MergeTask]) -> list[MergeResult]:
        return [
            MergeResult.from_json(
                (
                    run_merge(store.place, task)
                    if type(store) is LocalStore
                    else merge_in(store, task)
                ).as_json()
            )
            for task in tasks
        ]

    return run


def merge_all(directory: WindowDirectory) -> None:
    """Make everything visible."""
    directory.merge(runner(directory.store), everything=True)


def written(place: Path, records: Sequence[Record], *, is_merged: bool = True) -> Path:
    """A directory that holds the windows of records, as deltas alone unless it `is_merged`."""
    with WindowDirectory.open(LocalStore(place)) as directory:
        directory.append([piece(directory, records)], reached(len(records)))
        if is_merged:
            merge_all(directory)
    return place


def windows_of_records(records: Sequence[Record], kind: WindowKind, width: str) -> pa.Table:
    """The windows of records, as they are read from a directory."""
    sums = sums_of(records).get(kind.name)
    if sums is None:
        return kind.schema.empty_table()
    return windows_of(coarser(sums, kind, width), kind, width)


def assert_read(place: Any, records: Sequence[Record]) -> None:
    """Our reader finds the windows of these records, of every kind and width, and no others."""
    for kind, width, expected in _expected(records):
        assert_rows(read_windows(place, kind, width), expected, kind)


def plain_windows(place: Path, kind: WindowKind, width: str) -> pa.Table:
    """What PyArrow's own reader of a folder finds."""
    return _plain_reader(place)(kind, width)


def _plain_reader(place: Path) -> Callable[[WindowKind, str], pa.Table]:
    """Reads the files that are there now, which are listed once."""
    if not any(place.glob("kind=*")):
        return lambda kind, _: kind.schema.empty_table()
    found = pyarrow.dataset.dataset(place, partitioning="hive", format="parquet")
    field = pyarrow.dataset.field

    def read(kind: WindowKind, width: str) -> pa.Table:
        if not {"kind", "width"} <= set(found.schema.names):
            return kind.schema.empty_table()
        table = found.to_table(filter=(field("kind") == kind.name) & (field("width") == width))
        order = [(name, "ascending") for name in kind.key_names]
        return table.select(kind.names).sort_by(order).cast(kind.schema)

    return read


def assert_plain(place: Path, records: Sequence[Record]) -> None:
    """Any reader of Parquet finds the windows of these records, and no others."""
    read = _plain_reader(place)
    for kind, width, expected in _expected(records):
        assert_rows(read(kind, width), expected, kind)


_Expected = list[tuple[WindowKind, str, list[Record]]]
_last_expected: tuple[Sequence[Record], _Expected] = ((), [])


def _expected(records: Sequence[Record]) -> _Expected:
    """The rows of each kind and width; kept, since most tests read the same windows twice."""
    global _last_expected
    last, found = _last_expected
    if not found or len(last) != len(records) or not all(map(is_, last, records)):
        of_kind: defaultdict[str, list[Record]] = defaultdict(list)
        for record in records:
            of_kind[record["kind"]].append(record)
        found = [
            (kind, width, reference_windows(of_kind[kind.name], kind, width_s))
            for kind in WINDOW_KINDS
            for width, width_s in WIDTHS_S.items()
        ]
        _last_expected = ([*records], found)
    return found


class Killed(BaseException):
    """Stands for kill -9: nothing in the product catches it to go on."""


class FailingStore(LocalStore):
    """Calls a function before each operation, which may raise or do something meanwhile."""

    def __init__(self, root: Path, before: Callable[[str, str], None]) -> None:
        super().__init__(root)
        self._before = before

    def read_bytes(self, path: str) -> bytes:
        self._before("read_bytes", path)
        return super().read_bytes(path)

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        """Call the function before the file is begun and before it is moved into place."""
        self._before("open_output", path)
        with super().open_output(path) as file:
            yield file
            self._before("close", path)

    @contextlib.contextmanager
    def open_input(self, path: str) -> Iterator[Any]:
        self._before("open_input", path)
        with super().open_input(path) as file:
            yield file

    def exists(self, path: str) -> bool:
        self._before("exists", path)
        return super().exists(path)

    def list(self, prefix: str = "") -> list[str]:
        self._before("list", prefix)
        return super().list(prefix)

    def move(self, source: str, target: str) -> None:
        self._before("move", target)
        super().move(source, target)

    def remove(self, path: str) -> None:
        self._before("remove", path)
        super().remove(path)


class NthOperation:
    """Raises before the operation of this number, and before all that follow it if it is a kill."""

    def __init__(self, number: int, problem: Callable[[], BaseException]) -> None:
        self.number = number
        self.calls = 0
        self._problem = problem

    def __call__(self, operation: str, path: str) -> None:
        """Count an operation."""
        self.calls += 1
        problem = self._problem()
        if self.calls == self.number or (self.calls > self.number and isinstance(problem, Killed)):
            raise problem

    @property
    def has_come(self) -> bool:
        """Whether there were so many operations."""
        return self.calls >= self.number


class NthChange(NthOperation):
    """Counts only what changes a file: a kill before reads leaves the same as one after them."""

    def __call__(self, operation: str, path: str) -> None:
        """Count an operation, unless it reads."""
        if operation in ("open_output", "close", "move", "remove") or self.has_come:
            super().__call__(operation, path)
