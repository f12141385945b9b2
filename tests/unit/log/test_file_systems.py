"""How appends work on each file system; the resulting file is always the same."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cluster.log.file_systems import file_system_of
from cluster.log.mmap_segment import MmapSegment

MOUNTS = """\
22 1 0:20 / /proc rw,nosuid - proc proc rw
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684092k
40 25 0:50 / /my\\040place rw master:3 propagate_from:2 - fuse.sshfs you@there: rw
41 broken
"""


@pytest.mark.parametrize(
    ("major", "minor", "expected"),
    [(254, 0, "ext4"), (0, 27, "tmpfs"), (0, 50, "fuse.sshfs"), (254, 1, None)],
)
def test_type_of_a_file_system(
    tmp_path: Path, major: int, minor: int, expected: str | None
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(os.makedev(major, minor), mounts) == expected


def test_file_system_is_unknown_without_mountinfo(tmp_path: Path) -> None:
    assert file_system_of(1, tmp_path / "none") is None


@pytest.fixture(params=["disk", "memory"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A directory on a disk's and on a memory file system, where the machine has both."""
    if request.param == "disk":
        yield tmp_path_factory.mktemp("place")
        return
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("no /dev/shm")
    with tempfile.TemporaryDirectory(dir=shared) as directory:
        yield Path(directory)


@pytest.mark.parametrize("largest", [300, 9_000, 40_000, 400_000])
def test_a_file_holds_what_was_appended_and_then_zeros(place: Path, largest: int) -> None:
    random = Random(largest)
    file = MmapSegment(place / "file", 1 << 20)
    appended = bytearray()
    while len(appended) < 3_000_000:
        if appended and random.random() < 0.01:
            end = random.randrange(max(0, len(appended) - 2 * largest), len(appended))
            file.truncate(end)
            del appended[end:]
        data = random.randbytes(random.randint(20, largest))
        head = random.randbytes(random.choice((0, 16)))
        assert file.append(memoryview(data), head) == len(appended)
        appended += head + data[len(head) :]
    on_disk = file.path.read_bytes()
    assert on_disk[: len(appended)] == appended
    assert not any(on_disk[len(appended) :])
    assert file.view(0, len(appended)) == appended
    file.seal()
    assert file.path.read_bytes() == appended
