"""Removing a data directory: its log directories elsewhere go with it, those of others stay."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from cluster.datadir.log_dirs import META_PROPERTIES, own_directories, remembered_directories
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import read_state, write_state
from cluster.launch.directories import take_shared_directories
from cluster.tools import stop

CLUSTER_ID = "a-cluster"
PLACES = (".", "../beside", "linked", "{disk}")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return tmp_path / "disk"


@pytest.fixture
def original(tmp_path: Path, disk: Path) -> Path:
    """A stopped cluster of two brokers, with log directories of every kind."""
    home = tmp_path / "original"
    home.mkdir()
    (tmp_path / "linked-to").mkdir()
    (home / "linked").symlink_to(tmp_path / "linked-to")
    places = [place.format(disk=disk) for place in PLACES]
    brokers = []
    for number in range(2):
        directories = own_directories(places, home, number)
        brokers.append({"id": number, "log_dirs": [str(path) for path in directories]})
        for path in directories:
            path.mkdir(parents=True)
            (path / META_PROPERTIES).write_text(f"broker.id={number}\ncluster.id={CLUSTER_ID}\n")
    write_state(
        DataDir(home).state_file,
        {"data_dir": str(home), "cluster_id": CLUSTER_ID, "brokers": brokers},
    )
    return home


def start(home: Path) -> None:
    """What a start does with the directories: it notes that they are shared, then the state."""
    files = DataDir(home)
    state = read_state(files.state_file) or {}
    take_shared_directories(files, state, lambda _: None)
    brokers = [
        {"id": broker, "log_dirs": [str(path) for path in paths]}
        for broker, paths in remembered_directories(state, home).items()
    ]
    write_state(files.state_file, {**state, "data_dir": str(home), "brokers": brokers})


def purge(home: Path) -> None:
    assert stop.run(Namespace(data_dir=home, purge=True)) == 0


def marks_below(home: Path) -> int:
    return len(list(home.rglob(META_PROPERTIES)))


def test_purge_removes_the_log_directories_elsewhere(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert marks_below(tmp_path) == 2 * len(PLACES)
    purge(original)
    assert marks_below(tmp_path) == 0
    assert capsys.readouterr().out == f"Removed {original}.\n"


def test_purge_of_a_copy_that_was_never_started_leaves_those_of_the_original(
    original: Path, tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy, symlinks=True)
    assert marks_below(tmp_path) == 2 * len(PLACES) + 2
    purge(copy)
    assert not copy.exists()
    assert marks_below(tmp_path) == 2 * len(PLACES)
    assert marks_below(disk) == 2
    removed, left = capsys.readouterr().out.splitlines()
    assert removed == f"Removed {copy}."
    assert left.startswith(
        f"Left {tmp_path}/beside/broker-0, {tmp_path}/linked-to/broker-0, {disk}/broker-0, "
    )
    assert left.endswith(
        f", {disk}/broker-1: at the last start, {copy} was {original}. If that was moved, not"
        " copied, remove them yourself."
    )


def test_purge_by_another_path_to_the_same_directory_removes_all(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(original)
    purge(link)
    assert marks_below(tmp_path) == 0
    assert not link.is_symlink()
    assert capsys.readouterr().out == f"Removed {link}.\n"


@pytest.mark.parametrize("is_copy_first", [True, False])
def test_log_directories_of_a_started_copy_go_with_the_last_of_both(
    original: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    is_copy_first: bool,
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy, symlinks=True)
    start(copy)
    first, last = (copy, original) if is_copy_first else (original, copy)
    purge(first)
    assert not first.exists()
    assert marks_below(tmp_path) == 2 * len(PLACES)
    removed, left = capsys.readouterr().out.splitlines()
    assert removed == f"Removed {first}."
    assert left.startswith(f"Left {tmp_path}/beside/broker-0, {tmp_path}/linked-to/broker-0, ")
    assert left.endswith(f": {last} has replicas there, too, and removes them when it is purged.")
    purge(last)
    assert marks_below(tmp_path) == 0


def test_purge_of_a_started_directory_that_was_moved_removes_all(
    original: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    original.rename(moved)
    start(moved)
    purge(moved)
    assert marks_below(tmp_path) == 0


def test_purge_leaves_a_log_directory_that_another_broker_has_marked(
    original: Path, tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (disk / "broker-0" / META_PROPERTIES).write_text("broker.id=0\ncluster.id=another\n")
    (disk / "broker-1" / META_PROPERTIES).write_text(f"broker.id=7\ncluster.id={CLUSTER_ID}\n")
    purge(original)
    assert marks_below(tmp_path) == marks_below(disk) == 2
    told = capsys.readouterr().out
    for number, found in enumerate(("0 of cluster another", f"7 of cluster {CLUSTER_ID}")):
        assert (
            f"Left {disk}/broker-{number}: its meta.properties names broker {found}. If nothing"
            " needs it, remove it yourself.\n"
        ) in told
