"""Names of partition directories, and their removal: renamed first, so none is half deleted.

As in Kafka, a renamed directory is unlinked later, because unlinking takes time.
"""

import uuid
from pathlib import Path
from typing import Final

from cluster.log.files import files_of
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import TopicPartition

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
"""Of a copy that is being filled in another log directory (KIP-113)."""
STRAY_SUFFIX: Final = "-stray"
_MAX_NAME: Final = 255


def parse_directory_name(name: str) -> TopicPartition | None:
    """Parse `orders-0` as a partition; None for any other name, such as a deleted directory's."""
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isdecimal() and number.isascii()):
        return None
    return TopicPartition(topic, int(number))


def parse_deleted_name(name: str) -> TopicPartition | None:
    """The partition of a directory that is marked for deletion; None for any other name."""
    partition, dot, _ = name.removesuffix(DELETE_SUFFIX).rpartition(".")
    return parse_directory_name(partition) if dot and name.endswith(DELETE_SUFFIX) else None


def deleted_name(name: str) -> str:
    """The name of a directory marked for deletion, cut to the limit of file systems."""
    return _renamed(name, DELETE_SUFFIX)


def future_name(partition: TopicPartition) -> str:
    """A new name for a copy of a partition. Raises Refused(invalid_topic_exception) if too long."""
    name = f"{partition}.{uuid.uuid4().hex}{FUTURE_SUFFIX}"
    if len(name) > _MAX_NAME:
        raise Refused(ErrorCode.invalid_topic_exception, "The topic name is too long.")
    return name


def parse_future_name(name: str) -> TopicPartition | None:
    """The partition that a directory holds a future copy of; None for any other name."""
    if not name.endswith(FUTURE_SUFFIX):
        return None
    partition, dot, _ = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return parse_directory_name(partition) if dot else None


def _renamed(name: str, ending: str) -> str:
    suffix = f".{uuid.uuid4().hex}{ending}"
    return name[: _MAX_NAME - len(suffix)] + suffix


def rename_to_stray(directory: Path) -> Path:
    """Rename the second directory of a partition; nobody removes it. Raises StorageFailed."""
    renamed = directory.with_name(_renamed(directory.name, STRAY_SUFFIX))
    try:
        files_of(directory).rename(directory, renamed)
    except OSError as error:
        raise StorageFailed(f"cannot rename {directory}: {error.strerror}") from error
    return renamed


def rename_to_deleted(directory: Path) -> Path:
    """Rename a partition directory, which deletes the partition; return the new path.

    `remove_directory` removes it later; after a crash, the next start does. A missing directory is
    no error. Raises StorageFailed.
    """
    doomed = directory.with_name(deleted_name(directory.name))
    try:
        files_of(directory).rename(directory, doomed)
    except FileNotFoundError:
        return doomed
    except OSError as error:
        raise StorageFailed(f"cannot delete {directory}: {error.strerror}") from error
    return doomed


def remove_directory(doomed: Path) -> None:
    """Unlink a renamed directory with all its files. Raises StorageFailed."""
    try:
        files_of(doomed).remove_tree(doomed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"cannot remove {doomed}: {error.strerror}") from error
