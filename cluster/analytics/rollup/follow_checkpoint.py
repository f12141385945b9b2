"""The checkpoint directory of a following rollup: its subject, and the batch planned last.

`follow.json` has its topic and version. Beside it, below `spark/`, Spark keeps for each batch a
file `offsets/N` before the batch runs, and `commits/N` after it. Source:
org.apache.spark.sql.execution.streaming.runtime.OffsetSeqLog (Spark 4.3).
"""

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cluster.analytics.rollup.stream_offsets import Offsets, from_json, to_json

_DESCRIPTION: Final = "follow.json"
_SPARK: Final = "spark"
_VERSION: Final = 1


class BadCheckpoint(Exception):
    """The directory cannot be used; the message says why, without the directory's name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The topic, output and version of a checkpoint."""

    topic: str
    topic_id: str | None
    schema: str
    """The schema of the rows that the source passes to Spark."""
    cluster_id: str | None = None
    """None if the cluster has none, or if an earlier version wrote this."""


class FollowCheckpoint:
    """The checkpoint in a directory, which only one process may have open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.spark = directory / _SPARK
        """Spark's checkpoint location."""

    def subject(self) -> Subject | None:
        """Its subject; None without a checkpoint. Raises BadCheckpoint, OSError."""
        found = self._description()
        if found is None:
            return None
        try:
            return Subject(
                topic=found["topic"],
                topic_id=found["topic_id"],
                schema=found["schema"],
                cluster_id=found.get("cluster_id"),
            )
        except KeyError as missing:
            raise BadCheckpoint(f"{_DESCRIPTION} lacks {missing}") from None

    def begin(self, subject: Subject, start: Offsets) -> None:
        """Forget all batches; the first one begins at `start`. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.spark, ignore_errors=True)
        written = {"version": _VERSION, **asdict(subject), "start": to_json(start)}
        draft = self._directory / f"{_DESCRIPTION}.new"
        with draft.open("w") as file:
            file.write(json.dumps(written, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._directory / _DESCRIPTION)

    def check(self) -> None:
        """Raise BadCheckpoint if Spark would not continue with it although `subject` succeeded;
        OSError.

        After a power failure the newest files may be empty or cut.
        """
        numbers = [int(path.name) for path in (self.spark / "commits").glob("*") if _is_batch(path)]
        newest = [self.spark / "commits" / str(number) for number in sorted(numbers)[-1:]]
        for path, head, key in [
            (self.spark / "metadata", "", "id"),
            *((path, "v1", None) for path in newest),
        ]:
            with contextlib.suppress(FileNotFoundError):  # Spark writes another
                if not _is_whole(path.read_text(), head, key):
                    raise BadCheckpoint(f"{path.relative_to(self._directory)} is damaged")

    def last_batch(self) -> int | None:
        """The number of the batch planned last; None without one. Raises OSError."""
        numbers = [int(path.name) for path in (self.spark / "offsets").glob("*") if _is_batch(path)]
        return max(numbers, default=None)

    def is_committed(self, batch: int) -> bool:
        """Whether Spark will not run this batch again."""
        return (self.spark / "commits" / str(batch)).exists()

    def start_of(self, batch: int) -> dict[int, int]:
        """The begin of a batch. Raises BadCheckpoint, OSError."""
        if batch > 0:
            return self.end_of(batch - 1)
        found = self._description() or {}
        try:
            return from_json(found.get("start"))
        except ValueError as problem:
            raise BadCheckpoint(f"{_DESCRIPTION}: {problem}") from None

    def end_of(self, batch: int) -> dict[int, int]:
        """The end of a planned batch. Raises BadCheckpoint, OSError."""
        path = self.spark / "offsets" / str(batch)
        try:
            return _end_in(path.read_text())
        except FileNotFoundError:
            raise BadCheckpoint(f"{_SPARK}/offsets/{batch} is missing") from None
        except (ValueError, IndexError):
            raise BadCheckpoint(f"{_SPARK}/offsets/{batch} is damaged") from None

    def _description(self) -> dict[str, Any] | None:
        path = self._directory / _DESCRIPTION
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            others = [each for each in self._directory.glob("*") if each.name != f"{path.name}.new"]
            if others:
                raise BadCheckpoint(f"it holds {others[0].name}, which is not ours") from None
            return None
        except ValueError:
            raise BadCheckpoint(f"{_DESCRIPTION} is damaged") from None
        if not isinstance(found, dict):
            raise BadCheckpoint(f"{_DESCRIPTION} is damaged")
        if found.get("version") != _VERSION:
            raise BadCheckpoint(f"it is of version {found.get('version')}, not {_VERSION}")
        return found


def _is_whole(text: str, head: str, key: str | None) -> bool:
    """Whether one of Spark's files has this first line, and then a line of JSON with this key."""
    first, _, rest = text.rpartition("\n")
    try:
        found = json.loads(rest)
    except ValueError:
        return False
    return first == head and isinstance(found, dict) and (key is None or key in found)


def _is_batch(path: Path) -> bool:
    return path.name.isdecimal()


def _end_in(text: str) -> dict[int, int]:
    """The offsets of the only source in a file of Spark's offset log. Raises ValueError,
    IndexError.
    """
    version, _, offsets = text.split("\n")[:3]
    if version != "v1":
        raise ValueError(f"version {version}")
    return from_json(json.loads(offsets))
