"""Names of partition directories, and their removal: renamed first, so that none is half deleted.

As in Kafka, a renamed directory is unlinked later: that takes time, and nobody waits for it.
"""

import shutil
import uuid
from pathlib import Path
from typing import Final

from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition

DELETE_SUFFIX: Final = "-delete"
_MAX_NAME: Final = 255


def parse_directory_name(name: str) -> TopicPartition | None:
    """`orders-0` as a partition; None for any other name, such as that of a deleted one."""
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isdecimal() and number.isascii()):
        return None
    return TopicPartition(topic, int(number))


def deleted_name(name: str) -> str:
    """The name of a directory that is to be removed, no longer than file systems allow."""
    suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
    return name[: _MAX_NAME - len(suffix)] + suffix


def set_aside(directory: Path) -> Path:
    """Rename a partition directory, which deletes the partition; returns its new path.

    `remove_directory` removes it later; after a crash, at the next start. None there: no error.
    Raises StorageFailed.
    """
    doomed = directory.with_name(deleted_name(directory.name))
    try:
        directory.rename(doomed)
    except FileNotFoundError:
        return doomed
    except OSError as error:
        raise StorageFailed(f"cannot delete {directory}: {error.strerror}") from error
    return doomed


def remove_directory(doomed: Path) -> None:
    """Unlink a directory that was set aside, with all its files. Raises StorageFailed."""
    try:
        shutil.rmtree(doomed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"cannot remove {doomed}: {error.strerror}") from error
