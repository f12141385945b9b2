"""When a log directory is full, and which writes it still accepts."""

import errno
from pathlib import Path

import pytest

from cluster.log.directory_room import (
    DirectoryRoom,
    DiskSpace,
    common_space,
    reserve_of,
)
from cluster.log.files import LogFiles
from cluster.log.mmap_segment import MmapSegment
from cluster.model.errors import StorageFailed
from cluster.model.sizes import size_text
from tests.support.small_disk import MIB, MeasuredDisk

RESERVE = 16 * MIB
TOTAL = 1_000 * MIB


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> MeasuredDisk:
    return MeasuredDisk(monkeypatch, TOTAL)


@pytest.fixture
def room(disk: MeasuredDisk, tmp_path: Path) -> DirectoryRoom:
    made = DirectoryRoom(tmp_path, RESERVE)
    made.look()
    return made


def test_the_reserve_is_at_most_a_tenth_of_the_disk() -> None:
    assert reserve_of(RESERVE, TOTAL) == RESERVE
    assert reserve_of(RESERVE, 120 * MIB) == 12 * MIB


def test_directory_is_full_within_the_reserve_until_a_quarter_more_is_free(
    disk: MeasuredDisk, room: DirectoryRoom
) -> None:
    changes: list[bool] = []
    room.watch(RESERVE, lambda: changes.append(room.is_full))
    for free, expected in [(16, False), (15, True), (19, True), (20, False), (17, False)]:
        disk.leave(free * MIB)
        room.look()
        assert room.is_full is expected, free
    assert changes == [True, False]


def test_followers_use_half_of_the_reserve(disk: MeasuredDisk, room: DirectoryRoom) -> None:
    disk.leave(9 * MIB)
    room.look()
    assert (room.is_full, room.is_used_up) == (True, False)
    assert room.admits(MIB // 2, -1, is_ahead=False)
    assert not room.admits(MIB + 1, -1, is_ahead=False)
    disk.leave(8 * MIB - 1)
    room.look()
    assert (room.is_full, room.is_used_up) == (True, True)


def test_space_taken_ahead_leaves_the_whole_reserve(
    disk: MeasuredDisk, room: DirectoryRoom, tmp_path: Path
) -> None:
    disk.leave(RESERVE + MIB)
    file = MmapSegment(tmp_path / "0.log", 4 * MIB, room=room)
    file.append(memoryview(bytes(100)))
    assert file.path.stat().st_size == MIB // 4
    disk.leave(RESERVE + MIB // 4)
    file.append(memoryview(bytes(MIB // 4)))
    assert file.path.stat().st_size < MIB
    assert not room.is_full


def test_an_append_that_would_use_the_reserve_up_is_refused_with_figures(
    disk: MeasuredDisk, room: DirectoryRoom, tmp_path: Path
) -> None:
    file = MmapSegment(tmp_path / "0.log", 4 * MIB, room=room)
    disk.leave(8 * MIB)
    with pytest.raises(StorageFailed) as raised:
        file.append(memoryview(bytes(100)))
    assert str(raised.value) == (
        f"log directory {tmp_path} is full: 8.0 MiB of 1000.0 MiB are free, 16.0 MiB of that is the"
        " reserve"
    )
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENOSPC
    assert room.is_used_up
    assert file.size_bytes == 0


def test_without_a_reserve_a_full_directory_stays_full_until_there_is_room(
    disk: MeasuredDisk, tmp_path: Path
) -> None:
    room = DirectoryRoom(tmp_path, 0)
    file = MmapSegment(tmp_path / "0.log", 4 * MIB, room=room)
    disk.leave(4096)
    with pytest.raises(StorageFailed, match="is full"):
        file.append(memoryview(bytes(5000)))
    room.look()
    assert (room.is_full, room.is_used_up) == (True, True)
    disk.leave(MIB)
    room.look()
    assert (room.is_full, room.is_used_up) == (False, False)


def test_a_directory_that_the_system_refuses_is_tried_again(
    disk: MeasuredDisk, room: DirectoryRoom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk quota refuses a write while the file system still reports free space."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as refusing:
        refusing.setattr(LogFiles, "allocate", staticmethod(refuse))
        refusing.setattr(LogFiles, "write", staticmethod(refuse))
        with pytest.raises(StorageFailed, match="Disk quota exceeded"):
            MmapSegment(tmp_path / "0.log", 4 * MIB, room=room).append(memoryview(bytes(100)))
        for _ in range(30):
            room.look()
        assert room.is_used_up
        assert "more is refused: Disk quota exceeded" in room.text
    for _ in range(10):
        room.look()
    assert not room.is_full
    assert [path.name for path in tmp_path.iterdir()] == ["0.log"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *[(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB")],
        *[(3 << 30, "3.0 GiB"), (1 << 50, "1024.0 TiB")],
    ],
)
def test_sizes_have_the_largest_unit_below_them(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_file_system_of_several_directories_counts_once(tmp_path: Path) -> None:
    rooms = [DirectoryRoom(tmp_path), DirectoryRoom(tmp_path / "b"), DirectoryRoom(Path("/proc"))]
    (tmp_path / "b").mkdir()
    for room in rooms:
        room.look()
    first, _, other = (room.space for room in rooms)
    assert common_space(rooms[:2]).total_bytes == first.total_bytes > 0
    both = common_space(rooms)
    assert both.total_bytes == first.total_bytes + other.total_bytes
    assert common_space([]) == DiskSpace(0, 0)
