"""What a start needs of the disks, and what it says where that is not there."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.datadir.paths import DataDir
from cluster.launch.start_room import check_room
from cluster.model.errors import UserError

MIB = 1 << 20
STATS = 4 * MIB


def check(files: DataDir, brokers: int = 3) -> list[str]:
    """What is noted."""
    said: list[str] = []
    check_room(
        files,
        {number: (files.path / f"broker-{number}",) for number in range(brokers)},
        said.append,
        stats_bytes=STATS,
        reserve_bytes=16 * MIB,
        has_registry=True,
    )
    return said


@pytest.fixture
def files(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    made.run.mkdir(parents=True)
    return made


def set_disk(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 1_000 * MIB) -> None:
    disk = SimpleNamespace(f_bavail=free, f_blocks=total, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)


def test_a_first_start_is_refused_with_figures_where_its_files_have_no_room(
    files: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_disk(monkeypatch, free=7 * MIB, total=8 * MIB)
    with pytest.raises(UserError) as refused:
        check(files)
    assert str(refused.value) == (
        f"there is no room to start: 7.0 MiB of 8.0 MiB are free in {files.path}, and 3 brokers"
        " need 20.0 MiB to begin with: free space there, or choose another --data-dir"
    )
    set_disk(monkeypatch, free=20 * MIB, total=100 * MIB)
    assert check(files) == []


def test_a_cluster_that_has_filled_its_disk_starts_again_and_says_so(
    files: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files.path / "registry").mkdir()
    for number in range(3):
        (files.path / f"broker-{number}").mkdir()
        (files.run / f"broker-{number}.stats").touch()
    set_disk(monkeypatch, free=6 * MIB, total=120 * MIB)
    (said,) = check(files)
    assert said == (
        f"Warning: the disk is full: 6.0 MiB of 120.0 MiB are free in {files.path}. Brokers take no"
        " records there before 15.0 MiB are free; deleting topics makes room."
    )
