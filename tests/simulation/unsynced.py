"""What is on the disks of a machine that loses power: the synced content of files, and parts of
what was written since.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

from cluster.log.directories import DELETE_SUFFIX
from cluster.log.files import LogFiles

_BLOCK_BYTES = 512
"""What a disk writes as a whole. Segments of simulations are smaller than the 4 KiB of pages."""


class Disks:
    """Takes note of each sync in `recorded`.

    Of the files that were made since a directory was synced, the last ones may be gone: file
    systems have a journal of names. What was removed or replaced stays so. The files of one segment
    grew together, so they have all lost their new sizes or none.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._contents: dict[int, bytes] = {}
        """Of synced files, by inode."""
        self._names: dict[int, frozenset[str]] = {}
        """Of synced directories."""
        self._made: dict[int, int] = {}
        """The files in the order in which they were made, by inode."""
        self._made_count = 0

    @contextmanager
    def recorded(self, root: Path) -> Iterator[None]:
        """Take all that is below a directory for synced, then note what is; no call syncs
        anything."""
        for place, _, names in os.walk(root):
            self._names[Path(place).stat().st_ino] = _names_in(Path(place))
            for path in map(Path(place).joinpath, names):
                self._contents[path.stat().st_ino] = path.read_bytes()
        with (
            patch.object(LogFiles, "sync", staticmethod(self._sync)),
            patch.object(LogFiles, "sync_data", staticmethod(self._sync)),
            patch.object(LogFiles, "open", staticmethod(self._open)),
        ):
            yield

    def _open(self, path: Path | str, flags: int, mode: int = 0o777) -> int:
        is_made = bool(flags & os.O_CREAT) and not os.path.exists(path)  # noqa: PTH110 - as given
        descriptor = os.open(path, flags, mode)
        if is_made:
            number = os.fstat(descriptor).st_ino
            self._contents.pop(number, None)  # of a file that is gone
            self._made[number] = self._made_count = self._made_count + 1
        return descriptor

    def _sync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = frozenset(os.listdir(descriptor))
        else:
            self._contents[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def lose_power(self, root: Path) -> list[str]:
        """Change the files below a directory, which nobody uses, to what is left of them. Returns
        the names of those that were changed."""
        changed = []
        for place in [root, *sorted(path for path in root.iterdir() if path.is_dir())]:
            if place.name.endswith(DELETE_SUFFIX):  # their names differ from run to run
                continue
            files = sorted(path for path in place.iterdir() if path.is_file())
            self._lose_names(place, files)
            stems = sorted({path.stem for path in files})
            shrunk = {stem for stem in stems if self._random.random() < 0.3}
            for path in files:
                if not path.exists():
                    changed.append(f"{place.name}/{path.name} is gone")
                    continue
                number = path.stat().st_ino
                present = path.read_bytes()
                left = self._left(
                    self._contents.get(number, b""), present, is_short=path.stem in shrunk
                )
                if left != present:
                    path.write_bytes(left)
                    changed.append(f"{place.name}/{path.name}")
                self._contents[number] = left
        return changed

    def _lose_names(self, place: Path, files: Sequence[Path]) -> None:
        """Unlink the files that were made last."""
        known = self._names.get(place.stat().st_ino, frozenset())
        unknown = [path for path in files if path.name not in known]
        unknown.sort(key=lambda path: self._made.get(path.stat().st_ino, 0))
        for path in unknown[self._random.randrange(len(unknown) + 1) :]:
            path.unlink()
        self._names[place.stat().st_ino] = _names_in(place)

    def _left(self, synced: bytes, present: bytes, *, is_short: bool) -> bytes:
        """Blocks of either, the first ones of the present or some; `is_short`: of synced size."""
        if synced == present:
            return present
        random = self._random
        size = len(synced) if is_short else len(present)
        before, now = synced.ljust(size, b"\0")[:size], present.ljust(size, b"\0")[:size]
        count = -(-size // _BLOCK_BYTES)
        kind = random.choice(["first", "some", "none", "all"])
        first = random.randrange(count + 1)
        blocks = []
        for number in range(count):
            is_new = kind == "all" or (
                number < first if kind == "first" else kind == "some" and random.random() < 0.5
            )
            start = number * _BLOCK_BYTES
            blocks.append((now if is_new else before)[start : start + _BLOCK_BYTES])
        return b"".join(blocks)


def _names_in(directory: Path) -> frozenset[str]:
    return frozenset(path.name for path in directory.iterdir())
