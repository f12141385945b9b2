"""Runs functions of plain values in Spark's executors, through a Python data source.

A data source's reader is pickled into its tasks, and its class is sent by value because it is
created in a function: so what the tasks need, including a password, is in no option that a plan
would show. Source: pyspark.sql.datasource (Spark 4.2).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

SHORT_NAME: Final = "milena-tasks"
ROWS: Final = "number int, result string"
"""The rows of the data source: the number of each task, and a text."""

_Task = TypeVar("_Task")


def run_tasks(
    spark: "SparkSession", work: Callable[[_Task], str], tasks: Sequence[_Task]
) -> list[str]:
    """The texts that `work` returns for each task, in the order of tasks.

    `work` is pickled: a function of a module, or `functools.partial` of one. Raises what Spark
    raises; `spark_session.reason` finds the worker's message in it.
    """
    if not tasks:
        return []
    spark.dataSource.register(_source(work, tasks))
    rows = spark.read.format(SHORT_NAME).load().collect()
    results = {row["number"]: row["result"] for row in rows}
    return [results[number] for number in range(len(tasks))]


def _source(work: Callable[[Any], str], tasks: Sequence[Any]) -> "type[DataSource]":
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class TaskReader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition((number, task)) for number, task in enumerate(tasks)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
            number, task = partition.value
            yield number, work(task)

    class TaskSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return SHORT_NAME

        def schema(self) -> str:
            return ROWS

        def reader(self, schema: object) -> TaskReader:  # noqa: ARG002  # named by Spark
            return TaskReader()

    return TaskSource
