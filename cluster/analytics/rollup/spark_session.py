"""Starts one Spark session in this process, logs its output to a file, and leaves no JVM behind.

Spark's settings suit a small machine; with `--master` of a Spark cluster, that cluster's apply.
"""

import contextlib
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from cluster.analytics.rollup.java_process import find_java
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.runtime.log_file import rotate_if_large
from cluster.runtime.log_lines import LineFormatter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"

_PACKAGE: Final = Path(__file__).parents[2]
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Light compilation: a JVM that runs for half a minute takes 16 s of CPU with it, 24 s without."""
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}
_LOCAL_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
JVM_GONE: Final = (ConnectionRefusedError, ConnectionResetError, EOFError)
"""What calls of a JVM that was killed raise, beside Py4JError."""
_STOP_TIMEOUT_S: Final = 5.0
_REASON_LENGTH: Final = 300
_REASONS: Final = (
    r"^(?:cluster\.analytics(?:\.\w+)+|cimpl)\.\w+: (.+)$",  # last line of a worker's traceback
    r"^(?:[a-z]+\.)+\w+(?:Exception|Error): (.+)$",  # first line of a Java stack trace
)


@contextlib.contextmanager
def spark_session(master: str, log: Path, packages: str | None = None) -> Iterator["SparkSession"]:
    """A session that lives as long as the block; the JVM and its workers are ended after it.

    `packages` are Maven coordinates, joined by commas, that Spark fetches where it has them not.
    What the JVM and the workers print is appended to `log`. Raises UserError (NoJava among them).
    """
    before = _children()
    log.parent.mkdir(parents=True, exist_ok=True)
    rotate_if_large(log)
    # For the files that Spark would otherwise leave in the working and the temporary directory.
    scratch = Path(tempfile.mkdtemp(prefix="milena-spark-"))
    try:
        with _logging_to(log):
            session = _start(master, log, scratch, packages)
            try:
                yield session
            finally:
                with contextlib.suppress(Exception):  # a JVM that died cannot be stopped
                    session.stop()
    finally:
        _end([child for child in _children() if child not in before])
        _forget_gateway()
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def submitted_session() -> Iterator["SparkSession"]:
    """The session that spark-submit has prepared, with this package sent to its workers."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.appName("milena rollup")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory(prefix="milena-spark-") as scratch:
        session.sparkContext.addPyFile(str(packed(Path(scratch))))
        try:
            yield session
        finally:
            session.stop()


def _start(master: str, log: Path, scratch: Path, packages: str | None) -> "SparkSession":
    import pyspark
    from py4j.protocol import Py4JError
    from pyspark.accumulators import AccumulatorTCPServer
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    java = find_java(scratch / "java")
    os.environ.pop("JAVA_HOME", None)
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    # By default workers run the first python3 on PATH, which lacks our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    paths = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _JAVA_OPTIONS)
    is_local = master.startswith("local")
    builder = SparkSession.builder.appName("milena rollup").master(master)
    for key, value in {**_SETTINGS, **(_LOCAL_SETTINGS if is_local else {})}.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(scratch)).config(
        "spark.sql.warehouse.dir", str(scratch / "warehouse")
    )
    if packages:
        builder = builder.config("spark.jars.packages", packages)
    try:
        with log.open("ab") as file, _output_to(file.fileno()), _kept_interrupts():
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as problem:
        what = f"master {master}" + (f" and --packages {packages}" if packages else "")
        why = reason(problem)
        if "stopped SparkContext" in why:  # what it gives up with after a minute
            why = "the master did not answer"
        raise UserError(f"Spark did not start with {what}: {why} (see {shown(log)})") from None
    # Of a JVM that is killed it prints a traceback otherwise.
    AccumulatorTCPServer.handle_error = _log_error  # type: ignore[method-assign,assignment]
    if not is_local and not master.startswith("local-cluster"):
        session.sparkContext.addPyFile(str(packed(scratch)))
    return session


@contextlib.contextmanager
def _output_to(descriptor: int) -> Iterator[None]:
    """Redirect stdout and stderr within the block; processes started in it keep the redirection."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in saved:
            os.dup2(descriptor, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, original in saved:
            os.dup2(original, number)
            os.close(original)


@contextlib.contextmanager
def _logging_to(log: Path) -> Iterator[None]:
    """Send logging to a file: Py4J logs interrupted calls, although it also raises an error."""
    # Without rotation, because the JVM and its workers have the file open too.
    handler = logging.FileHandler(log)
    handler.setFormatter(LineFormatter())
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _log_error(_server: object, _request: object, _address: object) -> None:
    logging.getLogger("pyspark").info("a connection to Spark's Java process broke", exc_info=True)


@contextlib.contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Restore the SIGINT handler that PySpark replaces: its own calls a JVM that may be stuck."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # only the main thread may, and there PySpark did
            signal.signal(signal.SIGINT, before)


def reason(problem: BaseException) -> str:
    """One line from an error of Spark, which may be a Python traceback in a Java stack trace."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(problem, (Py4JNetworkError, *JVM_GONE)):
        return "Spark's Java process has ended: start again"
    text = str(problem)
    java = getattr(problem, "java_exception", None)
    if java is not None:
        with contextlib.suppress(Exception):  # asking needs a JVM that lives
            text = f"{text}\n{java.toString()}"
    for pattern in _REASONS:
        found = re.findall(pattern, text, re.MULTILINE)
        if found:
            return str(found[-1]).strip()[:_REASON_LENGTH]
    lines = text.strip().splitlines()
    return lines[0][:_REASON_LENGTH] if lines else type(problem).__name__


def packed(scratch: Path) -> Path:
    """A zip file of this package, from which workers on other machines import it."""
    archive = scratch / "milena.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
    return archive


def _children() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


def _end(processes: list[psutil.Process]) -> None:
    """Wait a few seconds for the processes to end by themselves, then kill them."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_STOP_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_STOP_TIMEOUT_S)


def _forget_gateway() -> None:
    """Reset the class attributes in which PySpark keeps its JVM, so that another can be started."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):  # its JVM is gone
            gateway.shutdown()
        with contextlib.suppress(OSError):  # a pipe to a process that is gone
            gateway.proc.stdin.close()
        gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
