"""A standalone Spark cluster on this machine. Needs PySpark and a Java."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.support import spark_classes
from tests.support.waiting import wait_until

SPARK = Path(pyspark.__file__).parent
_BRIEF = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
LIGHT = f"{_BRIEF} {spark_classes.options()}".rstrip()
"""Options of JVMs that live for less than a minute."""
_PATIENCE_S = 180.0


def environment() -> dict[str, str]:
    """Without this project on Python's path: it is sent to the workers."""
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": _BRIEF,  # its class path is another one
        "SPARK_DAEMON_JAVA_OPTS": LIGHT,
    }


@contextmanager
def spark_cluster(place: Path, workers: int) -> Iterator[str]:
    """The address of a master with workers of one processor, each in a working directory of its
    own."""
    with ExitStack() as ended:

        def start(name: str, what: str, *more: str) -> Path:
            log = place / f"{name}.log"
            (place / name).mkdir()
            with log.open("w") as output:
                process = subprocess.Popen(
                    [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *more],
                    cwd=place / name,
                    env=environment(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            ended.callback(process.wait)
            ended.callback(process.terminate)
            return log

        here = ("--host", "127.0.0.1", "--webui-port", "0")
        log = start("master", "master.Master", *here, "--port", "0")
        found = wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
            "a Spark master",
            _PATIENCE_S,
        )
        for number in range(workers):
            start(
                f"worker-{number}",
                "worker.Worker",
                *here,
                *("--cores", "1", "--memory", "1200m"),
                *("--work-dir", str(place / f"work-{number}")),
                found[1],
            )
        wait_until(
            lambda: log.read_text().count("Registering worker") == workers,
            "its workers",
            _PATIENCE_S,
        )
        yield found[1]
