"""Directories of tests in memory: ten thousand short tests wait for the disk otherwise.

What the product does depends on the file system in one place, `log/file_systems.py`, whose tests
have directories on both kinds. Tests of whole clusters have theirs on the disk.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_SHARED: Final = Path("/dev/shm")
_NEEDED_BYTES: Final = 2 << 30
"""A container may have 64 MiB of shared memory; some tests write large files."""


def has_memory() -> bool:
    """Whether this machine has a file system in memory that is large enough."""
    return os.access(_SHARED, os.W_OK) and shutil.disk_usage(_SHARED).free >= _NEEDED_BYTES


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory as pytest makes one, but it is removed after a failure, too."""
    with tempfile.TemporaryDirectory(prefix="milena-test-", dir=_SHARED) as directory:
        yield Path(directory)
