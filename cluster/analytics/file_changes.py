"""Puts several files of a directory in place as one change that a crash leaves whole or undone.

New files are written as drafts; then one rename of a list of what is to be done decides. Whoever
opens the directory next carries out a list that it finds there, and throws away drafts without one.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final, Self

_DRAFTS: Final = ".drafts"
_NEW_FILES: Final = "files"
_DECIDED: Final = "commit.json"


class FileChanges:
    """New files and removals below one directory, which only this process changes meanwhile.

    As a context manager: put in place at the end of the block, unless it raises.
    """

    def __init__(self, directory: Path) -> None:
        """Finish or undo what a killed process began. Raises OSError, and ValueError for a list
        that is none."""
        self._directory = directory
        self._drafts = directory / _DRAFTS
        self._removed: list[Path] = []
        finish(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is None:
            self._commit()
        else:
            shutil.rmtree(self._drafts, ignore_errors=True)

    def draft_of(self, final: Path) -> Path:
        """Where to write what is to become the file `final`."""
        draft = self._drafts / _NEW_FILES / final.relative_to(self._directory)
        draft.parent.mkdir(parents=True, exist_ok=True)
        return draft

    def remove(self, path: Path) -> None:
        """Let a file go with this change."""
        self._removed.append(path)

    def write_json(self, final: Path, document: Any) -> None:
        """Let `final` hold this document after the change."""
        self.draft_of(final).write_text(json.dumps(document, indent=1) + "\n")

    def _commit(self) -> None:
        written = [path for path in (self._drafts / _NEW_FILES).rglob("*") if path.is_file()]
        if not written and not self._removed:
            shutil.rmtree(self._drafts, ignore_errors=True)
            return
        for path in written:
            _sync(path)
        removed = [str(path.relative_to(self._directory)) for path in self._removed]
        self._drafts.mkdir(parents=True, exist_ok=True)
        undecided = self._drafts / f"{_DECIDED}.new"
        undecided.write_text(json.dumps({"remove": removed}))
        _sync(undecided)
        undecided.replace(self._drafts / _DECIDED)
        _sync(self._drafts)
        finish(self._directory)


def finish(directory: Path) -> None:
    """Carry out a change that was decided; throw away one that was not. Raises OSError, ValueError.

    May be repeated after a crash at any point: a draft that is gone has been put in place.
    """
    drafts = directory / _DRAFTS
    try:
        decided = json.loads((drafts / _DECIDED).read_text())
    except (FileNotFoundError, NotADirectoryError):
        shutil.rmtree(drafts, ignore_errors=True)
        return
    new_files = drafts / _NEW_FILES
    places = set()
    for draft in sorted(new_files.rglob("*")):
        if draft.is_file():
            final = directory / draft.relative_to(new_files)
            final.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(final)
            places.add(final.parent)
    for name in decided["remove"]:
        (directory / name).unlink(missing_ok=True)
        places.add((directory / name).parent)
    for place in places:
        _leave(place, directory)
    shutil.rmtree(drafts, ignore_errors=True)


def _leave(place: Path, directory: Path) -> None:
    """Make the changes in a folder last; remove it if it is empty."""
    if not place.exists():
        return
    if place != directory and not any(place.iterdir()):
        place.rmdir()
        return
    _sync(place)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
