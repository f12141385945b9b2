"""Where the work of a rollup is done: in this process, or by Spark's executors.

The work is the same: functions of plain values that read the topic, write files, and return little.
So memory here does not depend on the number of series.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cluster.analytics.rollup.kafka_records import ReadFailed
from cluster.analytics.rollup.offset_ranges import OffsetRange, grouped
from cluster.analytics.rollup.pieces import ReadJob, read_pieces
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.merge import MergeResult, MergeTask, run_merge
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_PER_PROCESSOR: Final = 3
"""The number of tasks for each processor, so that none waits long for the last."""
_SMALLEST_TASK: Final = 50_000
"""The smallest number of records in a task, unless there are no more."""


class Runner(Protocol):
    """Does the work of a rollup. Methods raise UserError."""

    def read(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> list[PieceResult]:
        """Read ranges of the topic, and write deltas of them."""

    def merge(self, output: str, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """Carry out independent merges; returns results in the order of tasks."""


class LocalRunner:
    """Does everything in this process, one after the other."""

    def read(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> list[PieceResult]:
        try:
            return [read_pieces(job, ranges)]
        except ReadFailed as problem:
            raise UserError(f"cannot read topic {job.topic}: {problem}") from None

    def merge(self, output: str, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """Raises UnusableDirectory, too."""
        return [run_merge(output, each) for each in tasks]


class SparkRunner:
    """Lets executors do the work."""

    def __init__(self, spark: "SparkSession", log: Path | None) -> None:
        """`log` is Spark's log file, for messages; None if it is unknown."""
        self.spark = spark
        self.log = log

    def read(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> list[PieceResult]:
        parallelism = self.spark.sparkContext.defaultParallelism
        tasks = grouped(ranges, _TASKS_PER_PROCESSOR * parallelism, _SMALLEST_TASK)
        work = functools.partial(read_to_json, job)
        return [PieceResult.from_json(each) for each in self._run(work, tasks)]

    def merge(self, output: str, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        work = functools.partial(merge_to_json, output)
        return [MergeResult.from_json(each) for each in self._run(work, tasks)]

    def _run(self, work: "functools.partial[str]", tasks: Sequence[object]) -> list[str]:
        from cluster.analytics.rollup.spark_tasks import run_tasks

        with in_words(self.log):
            return run_tasks(self.spark, work, tasks)


@contextlib.contextmanager
def in_words(log: Path | None) -> Iterator[None]:
    """Raise UserError, with the log's name, for Spark's errors within the block."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from cluster.analytics.rollup.spark_session import JVM_GONE, reason

    try:
        yield
    except (PySparkException, Py4JError, *JVM_GONE) as problem:
        place = "" if log is None else f" (see {shown(log)})"
        raise UserError(f"the rollup failed: {reason(problem)}{place}") from None


def read_to_json(job: ReadJob, pieces: Sequence[OffsetRange]) -> str:
    """`read_pieces` in an executor."""
    return read_pieces(job, pieces).as_json()


def merge_to_json(output: str, task: MergeTask) -> str:
    """`run_merge` in an executor."""
    return run_merge(output, task).as_json()
