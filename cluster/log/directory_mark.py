"""The mark file of a log directory, which shows whether the directory was replaced or rolled back.

`milena.properties` holds a generation, which grows at every start and clean stop (the registry has
the latest one, so an older copy of the directory shows a lower number), the boot id of the machine
(after another boot, unsynced writes may be lost), and its own inode (a copied file has another
one).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.config.properties_file import render_properties
from cluster.log.checkpoints import read_properties
from cluster.log.files import files_of
from cluster.model.errors import StorageFailed

MARK_FILE: Final = "milena.properties"


@dataclass(frozen=True, slots=True)
class DirectoryMark:
    """The content of the mark file."""

    generation: int
    boot_id: str
    is_original: bool
    """False: the file was copied after it was written."""


def read_mark(directory: Path) -> DirectoryMark | None:
    """The mark; None if the file is missing or unreadable. Raises OSError."""
    path = directory / MARK_FILE
    try:
        texts = read_properties(path)
    except StorageFailed:
        return None
    if texts is None:
        return None
    try:
        return DirectoryMark(
            int(texts["generation"]),
            texts["boot.id"],
            int(texts["inode"]) == path.stat().st_ino,
        )
    except (KeyError, ValueError):
        return None


def write_mark(directory: Path, generation: int, boot_id: str) -> None:
    path = directory / MARK_FILE
    temporary = directory / f"{MARK_FILE}.tmp"
    files = files_of(directory)
    try:
        files.unlink_if_there(temporary)  # a new inode: a copy must not keep the old one
        files.write_file(temporary, b"")
        inode = temporary.stat().st_ino
        fields = {"generation": str(generation), "boot.id": boot_id, "inode": str(inode)}
        files.write_file(temporary, f"#\n{render_properties(fields)}".encode())
        files.sync_path(temporary)
        files.rename(temporary, path)
        files.sync_path(directory)
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
