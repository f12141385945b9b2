"""A directory of windows after a kill or a failure before any single operation on its files."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import KIND_OF
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.reading import read_windows
from cluster.analytics.windows.store import LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.examples import stride
from tests.support.metric_records import START_MS, Record
from tests.support.reference_windows import every_kind
from tests.support.window_directories import (
    FailingStore,
    Killed,
    NthChange,
    NthOperation,
    merge_all,
    piece,
    reached,
)

pytestmark = pytest.mark.slow

KINDS = [KIND_OF["quota"]]
"""One kind has as many sorts of steps as seven, and fewer steps."""
DAY_MS = 86_400_000
START = datetime.fromtimestamp(START_MS / 1000, UTC)
TODAY = START.date() + timedelta(days=1)


def records(seed: int, start_ms: int) -> list[Record]:
    names = {kind.name for kind in KINDS}
    return [
        each for each in every_kind(seed, seconds=12, start_ms=start_ms) if each["kind"] in names
    ]


FIRST = [*records(1, START_MS), *records(2, START_MS + DAY_MS)]
SECOND = records(3, START_MS + 10_000)
THIRD = [*records(5, START_MS + 5_000), *records(6, START_MS + DAY_MS + 10_000)]


@dataclass
class Case:
    """Something that changes a directory."""

    act: Callable[[WindowDirectory], object]
    """May be repeated if it was not done, with the same effect."""
    is_visible: bool
    """Whether any reader of Parquet sees a difference."""
    removes: bool = False
    """Whether it removes windows."""


def append(directory: WindowDirectory) -> None:
    progress = directory.manifest.progress
    if progress is None or progress.offsets[0] < 3:
        directory.append([piece(directory, THIRD, quarantined=["a line"])], reached(3))


def forget(directory: WindowDirectory) -> None:
    directory.forget(dict.fromkeys(WIDTHS_S, timedelta()), TODAY)


def repair(directory: WindowDirectory) -> None:
    directory.repair(
        datetime.fromtimestamp(START_MS / 1000, UTC) - timedelta(minutes=9, seconds=50)
    )


CASES = {
    "append": Case(append, is_visible=False),
    "merge": Case(merge_all, is_visible=True),
    "repair": Case(repair, is_visible=True, removes=True),
    "forget": Case(forget, is_visible=True, removes=True),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with merged hours of two days, and a delta of one of them."""
    place = tmp_path_factory.mktemp("template")
    with WindowDirectory.open(LocalStore(place)) as directory:
        directory.append([piece(directory, FIRST, quarantined=["a line"])], reached(1))
        merge_all(directory)
        directory.append([piece(directory, SECOND)], reached(2))
    return place


Seen = dict[tuple[str, str], pa.Table]


def seen(place: Path) -> Seen:
    """The windows that our reader finds."""
    return {
        (kind.name, width): read_windows(place, kind, width) for kind in KINDS for width in WIDTHS_S
    }


def plainly_seen(place: Path) -> Seen:
    """The windows that any reader of Parquet finds."""
    found = pyarrow.dataset.dataset(place, partitioning="hive", format="parquet").to_table()
    seen = {}
    for kind in KINDS:
        of_kind = found.filter(pc.equal(found["kind"], kind.name)).sort_by(
            [(name, "ascending") for name in kind.key_names]
        )
        for width in WIDTHS_S:
            table = of_kind.filter(pc.equal(of_kind["width"], width)).select(kind.names)
            seen[kind.name, width] = table.cast(kind.schema)
    return seen


def by_key(table: pa.Table, kind: str) -> dict[tuple[Any, ...], Any]:
    names = KIND_OF[kind].key_names
    rows = table.to_pylist()
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows), "a window is there twice"
    return found


class Between:
    """Asserts that each window is there at most once, as before or as after."""

    def __init__(self, before: Seen, after: Seen, *, may_lack: bool) -> None:
        self._known = {
            (kind, width): [(table, by_key(table, kind)) for table in (old, after[kind, width])]
            for (kind, width), old in before.items()
        }
        self._may_lack = may_lack

    def check(self, found: Seen) -> None:
        for (kind, width), table in found.items():
            known = self._known[kind, width]
            (_, old), (_, new) = known
            rows = next((rows for each, rows in known if each == table), None)
            rows = by_key(table, kind) if rows is None else rows
            for key, row in rows.items():
                assert row in (old.get(key), new.get(key)), (kind, width, key)
            assert self._may_lack or set(old) <= set(rows), (kind, width)


@contextlib.contextmanager
def acting(
    place: Path, before: Callable[[str, str], None], act: Callable[[WindowDirectory], object]
) -> Iterator[WindowDirectory | None]:
    """The directory after an attempt; None if it could not be opened."""
    directory = None
    try:
        with contextlib.suppress(Killed, UnusableDirectory):
            directory = WindowDirectory.open(FailingStore(place, before))
            act(directory)
        yield directory
    finally:
        if directory is not None:
            directory.close()


def states(place: Path, tmp_path: Path, case: Case) -> tuple[Seen, Seen, Seen, Seen]:
    """What our reader sees before and after, and what any reader sees before and after."""
    done = tmp_path / "done"
    shutil.copytree(place, done)
    with WindowDirectory.open(LocalStore(done)) as directory:
        case.act(directory)
    return seen(place), seen(done), plainly_seen(place), plainly_seen(done)


def attempts(template: Path, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    for number in range(1, 500, stride()):
        place = tmp_path / f"{number}"
        shutil.copytree(template, place)
        yield number, place
        shutil.rmtree(place)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kill_before_any_change_of_a_file_loses_and_repeats_nothing(template, tmp_path, case):
    before, after, plain_before, plain_after = states(template, tmp_path, case)
    between = Between(plain_before, plain_after, may_lack=case.removes)
    for number, place in attempts(template, tmp_path):
        kill = NthChange(number, Killed)
        with acting(place, kill, case.act):
            pass
        found = seen(place)
        assert found in (before, after), number
        plain = plainly_seen(place)
        between.check(plain)
        if number % 2:  # and another one while it is opened again
            with acting(place, NthChange(number // 2 + 1, Killed), lambda _: None):
                pass
            assert seen(place) == found
        with WindowDirectory.open(LocalStore(place)) as directory:
            case.act(directory)
        assert seen(place) == after
        assert plainly_seen(place) == plain_after
        if not kill.has_come:
            return
    pytest.fail("it never ended")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_failed_operation_is_reported_in_one_line_and_can_be_repeated(template, tmp_path, case):
    before, after, plain_before, plain_after = states(template, tmp_path, case)
    between = Between(plain_before, plain_after, may_lack=case.removes)
    text = os.strerror(errno.ENOSPC)
    said: list[str] = []

    def act(directory: WindowDirectory) -> None:
        try:
            case.act(directory)
        except UnusableDirectory as problem:
            said.append(str(problem))

    for number, place in attempts(template, tmp_path):
        failure = NthOperation(number, lambda: OSError(errno.ENOSPC, text))
        with acting(place, failure, act) as directory:
            has_come, failure.number = failure.has_come, 0
            assert seen(place) in (before, after), number
            plain = plainly_seen(place)
            between.check(plain)
            if directory is not None:
                case.act(directory)
                assert seen(place) == after
                assert plainly_seen(place) == plain_after
        if not has_come:
            assert said
            assert all(text in line and "\n" not in line for line in said)
            return
    pytest.fail("it never ended")


def test_a_disk_that_is_full_in_the_middle_of_a_file(template, tmp_path):
    class FullFile:
        def __init__(self, file: Any) -> None:
            self._file = file
            self.closed = False

        def write(self, content: Any) -> int:
            if self._file.tell() > 400:
                raise OSError(errno.ENOSPC, "No space left on device")
            written: int = self._file.write(content)
            return written

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    class FullStore(LocalStore):
        is_full = True

        @contextlib.contextmanager
        def open_output(self, path: str) -> Iterator[Any]:
            with super().open_output(path) as file:
                yield FullFile(file) if self.is_full else file

    place = tmp_path / "full"
    shutil.copytree(template, place)
    before = seen(place)
    store = FullStore(place)
    with WindowDirectory.open(store) as directory:
        for act in (append, merge_all):
            with pytest.raises(UnusableDirectory, match="No space left on device"):
                act(directory)
            assert seen(place) == before
        store.is_full = False
        append(directory)
        merge_all(directory)
    assert not [path for path in place.rglob("*") if ".parquet." in path.name]
    assert seen(place) == plainly_seen(place)
