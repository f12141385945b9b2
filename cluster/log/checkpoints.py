"""Kafka's small text files: offset checkpoints, `partition.metadata`, `meta.properties`.

Each file is replaced atomically: the new content is written beside it, then renamed over it.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.config.properties_file import parse_properties, render_properties
from cluster.log.files import files_of
from cluster.model.errors import StorageFailed, UserError
from cluster.model.ids import Offset, TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
_VERSION: Final = "0"


class DamagedCheckpoint(Exception):
    """A checkpoint file does not follow its format. The broker can work without it."""


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace a file atomically: a process crash leaves either the old or the new content.

    With `sync` this also holds for a crash of the machine. Raises StorageFailed.
    """
    temporary = path.with_name(path.name + ".tmp")
    files = files_of(path)
    try:
        files.write_file(temporary, content)
        if sync:
            files.sync_path(temporary)
        files.rename(temporary, path)
        if sync:
            files.sync_path(path.parent)
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error


def encode_rows(rows: Iterable[tuple[object, ...]]) -> bytes:
    """Version line, number of rows, then a line of space-separated fields for each."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_rows(content: bytes) -> list[list[str]]:
    """Fields of each row. Raises DamagedCheckpoint."""
    try:
        version, count, *lines = content.decode().splitlines()
        rows = [line.split() for line in lines if line]
        if version != _VERSION or int(count) != len(rows):
            raise DamagedCheckpoint(f"version {version}, {len(rows)} rows of {count}")
    except ValueError as error:
        raise DamagedCheckpoint(str(error)) from error
    return rows


def write_offsets(path: Path, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Write one of the per-directory checkpoints, durably. Raises StorageFailed."""
    rows = [(name.topic, name.partition, offset) for name, offset in offsets.items()]
    replace_file(path, encode_rows(rows), sync=True)


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """Offsets of a per-directory checkpoint, empty when absent. Raises DamagedCheckpoint."""
    try:
        content = files_of(path).read_file(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): Offset(int(offset))
            for topic, partition, offset in decode_rows(content)
        }
    except ValueError as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error


def write_topic_id(directory: Path, topic_id: str) -> None:
    """Write a partition directory's `partition.metadata`: 22 characters of topic id."""
    replace_file(directory / PARTITION_METADATA, _topic_id_file(topic_id), sync=False)


def create_topic_id(directory: Path, topic_id: str) -> None:
    """Write the `partition.metadata` of a new directory. Raises StorageFailed.

    The file is written in place. A partition that lacks a topic id after a crash gets it again.
    """
    path = directory / PARTITION_METADATA
    try:
        files_of(path).write_file(path, _topic_id_file(topic_id))
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error


def _topic_id_file(topic_id: str) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {topic_id}".encode()


def read_topic_id(directory: Path) -> str | None:
    """The topic id of a partition directory, or None if it has none."""
    try:
        text = files_of(directory).read_file(directory / PARTITION_METADATA)
    except FileNotFoundError:
        return None
    for line in text.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return value.strip() or None
    return None


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file of plain keys and values, durably. Raises StorageFailed."""
    replace_file(path, f"#\n{render_properties(properties)}".encode(), sync=True)


def read_properties(path: Path) -> Mapping[str, str] | None:
    """Keys and values of a properties file; None when it is absent. Raises StorageFailed."""
    try:
        return parse_properties(files_of(path).read_file(path).decode("utf-8", "replace")).texts
    except FileNotFoundError:
        return None
    except UserError as problem:
        raise StorageFailed(f"{path}, {problem}") from None
