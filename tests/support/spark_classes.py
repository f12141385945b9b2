"""An archive of the classes that Spark's JVMs load: with it one starts in half of the time.

python -m tests.support.spark_classes     makes it, unless it is there

`bin/test` makes it beside the tests. Tests that start Spark use it if it is there by then.
"""

import functools
import hashlib
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psutil

from cluster.analytics.rollup.java_process import NoJava, find_java
from cluster.analytics.rollup.spark_session import spark_session
from tests.compat.installing import CACHE

_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
"""Spark's own variable for options of JVMs that it starts."""
_EXIT_S: Final = 300.0


def options() -> str:
    """For a JVM with Spark's class path; empty where there is no archive."""
    archive = _archive()
    return f"-XX:SharedArchiveFile={archive}" if archive is not None and archive.exists() else ""


def use() -> None:
    """Let this process, and those that it starts, start Spark with the archive, if it is there."""
    if options():
        os.environ[_VARIABLE] = options()


@functools.cache
def _archive() -> Path | None:
    """Its path, which another Java or another Spark changes; None if one of them is missing."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        try:
            java = find_java(Path(directory))
        except NoJava:
            return None
    program = java.home / "bin" / "java" if java.home else Path(shutil.which("java") or "")
    jars = Path(spark.origin).with_name("jars")
    parts = (program.resolve(), java.major, jars, jars.stat().st_mtime_ns)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    return CACHE / f"spark-classes-{digest}.jsa"


def make(archive: Path) -> None:
    """Do a little of everything that tests do in Spark, and write down what was loaded for it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f"{archive.name}.{os.getpid()}")
    os.environ[_VARIABLE] = f"-XX:ArchiveClassesAtExit={draft}"
    with (
        tempfile.TemporaryDirectory() as directory,
        spark_session("local[2]", Path(directory, "log")) as session,
    ):
        rows = session.createDataFrame([(1, "a"), (2, "b")], "number int, name string")
        rows.write.parquet(f"{directory}/rows")
        rows = session.read.parquet(f"{directory}/rows")
        rows.groupBy("name").sum("number").orderBy("name").toArrow()
        session.sparkContext.parallelize([1, 2]).map(str).collect()
        below = psutil.Process().children(recursive=True)
        javas = [each for each in below if each.name() == "java"]
        try:
            session._jvm.java.lang.System.exit(0)  # noqa: SLF001 - PySpark would kill it
        except Exception as ended:  # noqa: BLE001 - the connection ends with it
            print(f"Spark has ended: {type(ended).__name__}")
        _, left = psutil.wait_procs(javas, _EXIT_S)
    if left or not draft.exists():
        draft.unlink(missing_ok=True)
        print("Java has written no archive: Spark starts more slowly in these tests")
    else:
        draft.rename(archive)


def main() -> None:
    """Make it where Spark is, once."""
    archive = _archive()
    if archive is not None and not archive.exists():
        try:
            make(archive)
        except Exception as problem:  # noqa: BLE001 - tests go on without it
            print(f"no archive, so Spark starts more slowly in these tests: {problem!r}")


if __name__ == "__main__":
    main()
