"""The worker's own message is extracted from an error of Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.analytics.rollup.spark_session import reason_in
from tests.support.spark import need_spark

IN_WORKER = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pieces.py", line 28, in read
    raise UnusableDirectory("it is damaged")
cluster.analytics.windows.manifest.UnusableDirectory: /windows/a.parquet is damaged: half
"""
NO_MODULE = """\
[DATA_SOURCE_CREATE_ERROR] Failed to create Python data source instance: \
Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 1, in main
    import pyarrow
ModuleNotFoundError: No module named 'pyarrow'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/spark/python/pyspark/sql/worker/plan_data_source_read.py", line 9, in main
    reader.partitions()
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
"""
OURS_AT_LAST = """\
Traceback (most recent call last):
  File "a.py", line 1, in a
ConnectionError: no

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 1, in b
cluster.analytics.rollup.kafka_stream.TopicGone: topic t was deleted
"""
IN_JAVA = """\
An error occurred while calling o1.load.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: java.io.IOException: disk full
"""
PLAIN = "[TABLE_OR_VIEW_NOT_FOUND] There is no table.\nMore words."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IN_WORKER, "/windows/a.parquet is damaged: half"),
        (NO_MODULE, "ModuleNotFoundError: No module named 'pyarrow'"),
        (OURS_AT_LAST, "topic t was deleted"),
        ("org.apache.spark.SparkException: Job aborted\n\tat x", "Job aborted"),
        (PLAIN, "[TABLE_OR_VIEW_NOT_FOUND] There is no table."),
        ("", ""),
    ],
)
def test_the_reason_is_the_workers_own_last_line(text, expected):
    assert reason_in(text) == expected


def test_reason_is_the_last_cause_of_a_java_error():
    assert reason_in(IN_JAVA) == "disk full"


KILLED_JAVA = """
import sys, threading
from pathlib import Path
import psutil
from cluster.analytics.rollup.spark_session import JVM_GONE, spark_session

with spark_session("local[1]", Path(sys.argv[1])) as session:
    total = session.sparkContext.accumulator(0)
    session.sparkContext.parallelize([1, 2]).foreach(total.add)
    assert total.value == 3
    java, = [each for each in psutil.Process().children() if each.name() == "java"]
    java.kill()
    psutil.wait_procs([java])
    for _ in range(2):
        try:
            session.sparkContext.parallelize([1, 2]).count()
        except JVM_GONE:
            pass
print([each.name for each in threading.enumerate() if "serve_forever" in each.name])
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_java_leaves_no_thread_that_prints_a_trace_later(tmp_path):
    need_spark()
    checkout = Path(__file__).parents[4]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", KILLED_JAVA, str(tmp_path / "spark.log")],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[]\n", "")
