"""Readers see one state of a directory, whenever a writer changes it."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import QUOTA
from cluster.analytics.windows.layout import MANIFEST
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.reading import days_by_width, read_windows
from cluster.analytics.windows.store import LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.examples import stride
from tests.support.metric_records import START_MS
from tests.support.reference_windows import every_kind
from tests.support.window_directories import FailingStore, merge_all, piece, reached


def append(place: Path, seed: int = 3) -> None:
    with WindowDirectory.open(LocalStore(place)) as directory:
        records = every_kind(seed, seconds=15, start_ms=START_MS + 5_000)
        directory.append([piece(directory, records)], reached(seed))


def merge(place: Path) -> None:
    with WindowDirectory.open(LocalStore(place)) as directory:
        merge_all(directory)


def both(place: Path) -> None:
    append(place)
    merge(place)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template")
    append(place, 1)
    merge(place)
    append(place, 2)
    return place


@pytest.mark.no_cover
@pytest.mark.parametrize("change", [append, merge, both])
@pytest.mark.parametrize("width", ["10s", "1h"])
def test_a_change_between_any_two_operations_of_a_reader(template, tmp_path, change, width):
    done = tmp_path / "done"
    shutil.copytree(template, done)
    change(done)
    expected = [read_windows(template, QUOTA, width), read_windows(done, QUOTA, width)]
    for number in itertools.count(1, stride()):
        place = tmp_path / f"{number}"
        shutil.copytree(template, place)
        calls = itertools.count(1)

        def before(
            operation: str,
            path: str,
            calls: "itertools.count[int]" = calls,
            number: int = number,
            place: Path = place,
        ) -> None:
            if next(calls) == number:  # the reader cannot tell a change from its outcome
                shutil.rmtree(place)
                shutil.copytree(done, place)

        assert read_windows(FailingStore(place, before), QUOTA, width) in expected
        if next(calls) <= number:
            break
    assert number > 5


@pytest.mark.no_cover
def test_a_directory_that_changes_all_the_time_is_given_up(template, tmp_path):
    place = tmp_path / "busy"
    shutil.copytree(template, place)
    seeds = itertools.count(4)

    def before(operation: str, path: str) -> None:
        if path == MANIFEST:
            append(place, next(seeds))

    with pytest.raises(UnusableDirectory, match="changes faster than it can be read: try again"):
        read_windows(FailingStore(place, before), QUOTA, "1d")


def test_files_of_a_decided_change_are_read_from_its_drafts_until_they_are_moved(
    template, tmp_path
):
    place = tmp_path / "stopped"
    shutil.copytree(template, place)
    done = tmp_path / "done"
    shutil.copytree(template, done)
    merge(done)

    class Stopped(BaseException):
        pass

    def until(number: int) -> Callable[[str, str], None]:
        moves = itertools.count(1)

        def before(operation: str, path: str) -> None:
            if operation == "move" and next(moves) >= number:
                raise Stopped

        return before

    directory = WindowDirectory.open(FailingStore(place, until(5)))
    with pytest.raises(Stopped):
        merge_all(directory)
    for width in WIDTHS_S:
        assert read_windows(place, QUOTA, width) == read_windows(done, QUOTA, width)
    assert days_by_width(place, QUOTA) == days_by_width(done, QUOTA)
    directory.close()
