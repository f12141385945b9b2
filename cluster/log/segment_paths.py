"""The names of a segment's files: `<20-digit base offset>` with a suffix for each kind."""

import os
from pathlib import Path
from typing import Final

from cluster.log import transaction_index
from cluster.log.files import files_of
from cluster.model.errors import StorageFailed

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = transaction_index.SUFFIX
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""Of every file that a segment may have; the batches first."""


def segment_path(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """The path of a file of the segment that begins at an offset."""
    return directory / f"{base_offset:020d}{suffix}"


def segment_paths(directory: Path, base_offset: int) -> list[Path]:
    """All files that a segment may have, the batches first; some may be missing."""
    return [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]


def create_segment_file(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> None:
    """Create an empty file of a segment if it does not exist. Raises StorageFailed.

    The file is not kept open, so an unused log takes no descriptor.
    """
    path = segment_path(directory, base_offset, suffix)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        os.close(files_of(path).open(path, flags, 0o644))
    except OSError as error:
        raise StorageFailed(f"cannot create {path}: {error.strerror}") from error


def remove_segment_files(directory: Path, base_offset: int) -> None:
    """Unlink the files; existing slices stay readable. Raises StorageFailed."""
    try:
        for path in segment_paths(directory, base_offset):
            files_of(path).unlink_if_there(path)
    except OSError as error:
        raise StorageFailed(f"cannot delete {error.filename}: {error.strerror}") from error
