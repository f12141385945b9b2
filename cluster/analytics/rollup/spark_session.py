"""Starts a Spark session in this process, which has one Java process; logs its output to a file.

Spark's settings suit a small machine; with `--master` of a Spark cluster, that cluster's apply.
"""

import atexit
import contextlib
import functools
import io
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading  # noqa: TID251 - PySpark has threads that print
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import psutil

from cluster.analytics.rollup.java_process import find_java
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.runtime.log_file import rotate_if_large
from cluster.runtime.log_lines import LineFormatter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"
QUERY_MEMORY: Final = "1g"
"""For queries that Spark's SQL answers in the JVM."""
TASK_MEMORY: Final = "512m"
"""For a JVM that only distributes tasks to Python."""

_PACKAGE: Final = Path(__file__).parents[2]
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Light compilation: a JVM that runs for half a minute takes 16 s of CPU with it, 24 s without."""
_SETTINGS: Final = {
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
JVM_GONE: Final = (ConnectionRefusedError, ConnectionResetError, BrokenPipeError, EOFError)
"""The exceptions of calls to a killed JVM, beside Py4JError."""
_STOP_TIMEOUT_S: Final = 5.0
_REASON_LENGTH: Final = 300
_TRACEBACK: Final = "Traceback (most recent call last):"
_OURS: Final = re.compile(r"cluster(?:\.\w+)+: (.+)")
"""The last line of a traceback of an exception with a text for people."""
_PYTHONS: Final = re.compile(r"[A-Za-z_][\w.]*(?:: .+|$)")
_JAVAS: Final = re.compile(
    r"^(?:: |Caused by: )?(?:[a-z]\w*\.)+\w+(?:Exception|Error): (.+)$", re.MULTILINE
)
"""The first line of a Java stack trace, or of one of its causes."""


@contextlib.contextmanager
def spark_session(
    master: str, log: Path, packages: str | None = None, *, memory: str = QUERY_MEMORY
) -> Iterator["SparkSession"]:
    """A session that lives as long as the block.

    Its JVM and workers end with this process at the latest. There must be no session outside the
    block: a second one of this process has the same JVM, which writes to the first one's log.
    `memory` is the maximum heap of the JVM. `packages` are Maven coordinates, joined by commas,
    which Spark fetches if they are missing. Output of the JVM, the workers and, within the block,
    of other threads is appended to `log`. Raises UserError (NoJava among them).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    rotate_if_large(log)
    # For the files that Spark would otherwise leave in the working and the temporary directory.
    scratch = Path(tempfile.mkdtemp(prefix="milena-spark-"))
    try:
        with _logging_to(log):
            session = _start(master, log, scratch, packages, memory)
            try:
                yield session
            finally:
                _stop(session)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def submitted_session() -> Iterator["SparkSession"]:
    """The session that spark-submit has prepared, with this package sent to its workers."""
    from pyspark.sql import SparkSession

    with _kept_interrupts():
        session = (
            SparkSession.builder.appName("milena rollup")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
    scratch = Path(tempfile.mkdtemp(prefix="milena-spark-"))
    try:
        session.sparkContext.addPyFile(str(packed(scratch)))
        yield session
    finally:
        _stop(session)
        shutil.rmtree(scratch, ignore_errors=True)


def _stop(session: "SparkSession") -> None:
    """Stop a session whose JVM may be dead, which no call of its own survives."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        with contextlib.suppress(Exception):
            session.stop()
        # If that failed, this one, without a handle of the JVM now, ends the thread that receives
        # accumulators, which would print a trace whenever it notices its broken connection.
        with contextlib.suppress(Exception):
            session.sparkContext.stop()


def _start(
    master: str, log: Path, scratch: Path, packages: str | None, memory: str
) -> "SparkSession":
    import pyspark
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    java = find_java(scratch / "java")
    os.environ.pop("JAVA_HOME", None)
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    # By default workers run the first python3 on PATH, which lacks our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PyArrow's own allocators keep what a task has freed: 40 MB more in each worker.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    paths = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _JAVA_OPTIONS)
    is_local = master.startswith("local")
    builder = SparkSession.builder.appName("milena rollup").master(master)
    settings = {**_SETTINGS, **(_LOCAL_SETTINGS if is_local else {}), "spark.driver.memory": memory}
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(scratch)).config(
        "spark.sql.warehouse.dir", str(scratch / "warehouse")
    )
    if packages:
        builder = builder.config("spark.jars.packages", packages)
    _end_children_at_exit()
    try:
        with log.open("ab") as file, _output_to(file.fileno()), _kept_interrupts():
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as problem:
        what = f"master {master}" + (f" and --packages {packages}" if packages else "")
        why = reason(problem)
        if "stopped SparkContext" in why:  # the exception after a minute of waiting
            why = "the master did not answer"
        raise UserError(f"Spark did not start with {what}: {why} (see {shown(log)})") from None
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
    """Send logging, and what other threads print on stderr, to a file.

    PySpark reports interrupted calls in the former and broken connections in the latter, although
    it also raises an error.
    """
    # Without rotation, because the JVM and its workers have the file open, too.
    handler = logging.FileHandler(log)
    handler.setFormatter(LineFormatter())
    logging.getLogger().addHandler(handler)
    try:
        with (
            log.open("a", buffering=1) as file,
            contextlib.redirect_stderr(_ByThread(sys.stderr, file)),
        ):
            yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


class _ByThread(io.TextIOBase):
    """One stream for the thread that created it, and another for all others."""

    def __init__(self, own: TextIO, of_others: TextIO) -> None:
        self._own = own
        self._of_others = of_others
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._own.isatty()

    @property
    def _stream(self) -> TextIO:
        return self._own if threading.get_ident() == self._thread else self._of_others


@contextlib.contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Restore the SIGINT handler that PySpark replaces: its own calls a JVM that may hang."""
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
        with contextlib.suppress(Exception):  # this needs a live JVM
            text = f"{text}\n{java.toString()}"
    return reason_in(text) or type(problem).__name__


def reason_in(text: str) -> str:
    """One line from the text of an error of Spark; empty if it has none.

    The last line of the first traceback is the cause: later tracebacks are consequences.
    """
    _, *tracebacks = text.split(_TRACEBACK)
    ends = [end for each in tracebacks if (end := _end_of(each))]
    for end in ends:
        if found := _OURS.fullmatch(end):
            return found[1].strip()[:_REASON_LENGTH]
    if ends:
        return ends[0][:_REASON_LENGTH]
    if javas := _JAVAS.findall(text):
        return str(javas[-1]).strip()[:_REASON_LENGTH]
    lines = text.strip().splitlines()
    return lines[0][:_REASON_LENGTH] if lines else ""


def _end_of(traceback: str) -> str:
    """The line of a traceback that names the exception: the first one that is not indented."""
    for line in traceback.splitlines():
        if _PYTHONS.fullmatch(line):
            return line
    return ""


def packed(scratch: Path) -> Path:
    """A zip file of this package, from which workers on other machines import it."""
    archive = scratch / "milena.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
    return archive


@functools.cache
def _end_children_at_exit() -> None:
    """End the JVM and all its children before this process exits.

    A JVM ends by itself once the process that started it is gone; but then nobody has waited for
    it, and one that hangs stays.
    """
    before = _children()
    atexit.register(lambda: _end([child for child in _children() if child not in before]))


def _children() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


def _end(processes: list[psutil.Process]) -> None:
    """Terminate the processes, and kill those that remain after a few seconds."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_STOP_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_STOP_TIMEOUT_S)
