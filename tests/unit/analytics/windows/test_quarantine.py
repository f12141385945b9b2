"""Lines about quarantined records are bounded, and stored in few files per day."""

from datetime import date, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows.commits import Change, Commits
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.quarantine import quarantine_lines
from cluster.analytics.windows.store import LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.window_directories import piece, reached

DAY = "2026-11-26"


def kept(place: Path) -> list[str]:
    found = sorted((place / "_meta" / "aside").iterdir())
    return [line for path in found for line in path.read_text().splitlines()]


def put(commits: Commits, lines: list[str], day: str = DAY, **bounds: int) -> None:
    change = Change(commits.manifest)
    quarantine_lines(commits.store, change, commits.manifest.change + 1, lines, day, **bounds)
    commits.commit(change)


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    commits = Commits(LocalStore(tmp_path))
    commits.begin()
    for letter in "abcd":
        put(commits, [letter * 99], most=250, small=0)
    assert kept(tmp_path) == ["c" * 99, "d" * 99]
    put(commits, [letter * 99 for letter in "efg"], most=250)
    assert kept(tmp_path) == ["e" * 99, "f" * 99]
    assert [file.bytes for file in commits.manifest.quarantined] == [200]


def test_small_files_of_a_day_are_joined(tmp_path: Path) -> None:
    commits = Commits(LocalStore(tmp_path))
    commits.begin()
    for number in range(30):
        put(commits, [f"{number:099}"], "2026-11-27" if number >= 15 else DAY, small=1_000)
    assert kept(tmp_path) == [f"{number:099}" for number in range(30)]
    assert [file.day for file in commits.manifest.quarantined] == [DAY] * 2 + ["2026-11-27"] * 2
    assert len(list((tmp_path / "_meta" / "aside").iterdir())) == 4


def test_a_file_that_somebody_removed_is_no_loss(tmp_path: Path) -> None:
    commits = Commits(LocalStore(tmp_path))
    commits.begin()
    put(commits, ["one"])
    next((tmp_path / "_meta" / "aside").iterdir()).unlink()
    put(commits, ["two"])
    assert kept(tmp_path) == ["two"]


def test_rejected_records_are_stored_with_their_change_and_deleted_with_the_narrowest_windows(
    tmp_path: Path,
) -> None:
    with WindowDirectory.open(LocalStore(tmp_path)) as directory:
        directory.append([piece(directory, [], quarantined=["one", "two"])], reached(1))
        assert kept(tmp_path) == ["one", "two"]
        (file,) = directory.manifest.quarantined
        day = date.fromisoformat(file.day)
        keep = dict.fromkeys(WIDTHS_S, timedelta())
        assert directory.forget(keep, day) == 0
        assert directory.forget(keep, day + timedelta(days=1)) == 1
    assert not (tmp_path / "_meta" / "aside").exists()
