"""Checks for what a rollup by Spark needs, with one line for what is missing.

Its `report` runs in Spark's workers, which may lack this project's packages: only the standard
library is imported at the top.
"""

import contextlib
import ipaddress
import json
import platform
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from cluster.model.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster.analytics.windows.store import Store

TESTED: Final = ((4, 2), (4, 4))
"""The tested versions of PySpark: from the first, and before the second. The same as in
pyproject.toml."""
NEEDED: Final = {"pyarrow": "pyarrow", "confluent_kafka": "confluent-kafka"}
"""Modules that workers import, and the packages they come from."""
_TOKENS: Final = "_meta/seen"
_NO_PYTHON: Final = ("Cannot run program", "No such file or directory", "pyspark.daemon's stdout")
"""Spark's messages about a missing or unusable Python for workers."""


def check_pyspark() -> None:
    """Raise UserError if PySpark is missing, or if its version is not tested."""
    least, below = (".".join(map(str, each)) for each in TESTED)
    wanted = f"pip install 'pyspark>={least},<{below}'"
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise UserError(f"PySpark is missing: {wanted}") from None
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if not TESTED[0] <= numbers < TESTED[1]:
        raise UserError(
            f"PySpark {found} is installed, but the rollup needs {least} or newer, before {below}:"
            f" {wanted}"
        )


def is_remote(master: str) -> bool:
    """Whether workers of a master may be on other machines."""
    if master.startswith("local"):
        return False
    host = re.sub(r"^[a-z0-9]+://", "", master).rpartition(":")[0].strip("[]")
    return not is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine reach a host of this name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_addresses(master: str, given: str, advertised: Iterable[str]) -> None:
    """Raise UserError if workers on other machines would look for brokers on their own machine.

    `given` are the bootstrap servers, `advertised` the hosts that brokers name.
    """
    if not is_remote(master):
        return
    for server in given.split(","):
        host = server.strip().rpartition("://")[2].rpartition(":")[0].strip("[]")
        if is_loopback(host):
            raise UserError(
                f"workers of {master} cannot reach {server.strip()}, an address of this machine"
                " only: give --bootstrap-server HOST:PORT as other machines know it"
            )
    for host in advertised:
        if is_loopback(host):
            raise UserError(
                f"workers of {master} cannot reach brokers, which advertise {host}: start the"
                " cluster with `start --advertised-host HOST`"
            )


def check_workers(spark: "SparkSession", store: "Store") -> None:
    """Let Spark's workers check for what they need, and for access to the output.

    Raises UserError for the first problem.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from cluster.analytics.rollup.spark_session import JVM_GONE, reason

    context = spark.sparkContext
    is_local = (context.master or "").startswith("local")
    token = None if is_local else f"{_TOKENS}-{secrets.token_hex(8)}"
    if token is not None:
        with _writing(store):
            store.write_bytes(token, b"")
    seen = store.place, token
    count = max(2, context.defaultParallelism)
    try:
        found = context.parallelize(range(count), count).map(lambda _: report(*seen)).collect()
    except (PySparkException, Py4JError, *JVM_GONE) as problem:
        raise UserError(
            why_no_worker(str(problem), context.pythonExec) or reason(problem)
        ) from None
    finally:
        if token is not None:
            with contextlib.suppress(OSError):
                store.remove(token)
    for each in found:
        check_report(json.loads(each), store.shown())


def report(place: str, token: str | None) -> str:
    """A worker's environment as JSON; run in the worker."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    found: dict[str, Any] = {
        "host": platform.node(),
        "python": sys.executable,
        "version": platform.python_version(),
        "missing": missing,
        "sees_output": True,
    }
    if token is not None and "pyarrow" not in missing:
        from cluster.analytics.windows.store import open_store

        try:
            found["sees_output"] = open_store(place).exists(token)
        except Exception as problem:  # noqa: BLE001  # whatever a library of a store raises
            found["sees_output"] = False
            found["problem"] = str(problem).partition("\n")[0]
    return json.dumps(found)


def check_report(found: dict[str, Any], output: str) -> None:
    """Raise UserError for the first thing that a worker lacks, according to `report`."""
    host, python = found["host"], found["python"]
    if found["missing"]:
        packages = " and ".join(found["missing"])
        raise UserError(
            f"{python} of Spark's worker on {host} lacks {packages}: run `{python} -m pip install"
            f" {' '.join(found['missing'])}` there, or set PYSPARK_PYTHON to a Python that has them"
        )
    if not found["sees_output"]:
        because = f" ({found['problem']})" if "problem" in found else ""
        raise UserError(
            f"Spark's worker on {host} does not see {output}{because}: give an --output that all"
            " machines share, a mounted directory or s3://BUCKET/FOLDER"
        )


def why_no_worker(text: str, executable: str) -> str | None:
    """Why workers cannot run this Python executable, from the text of Spark's error; None for other
    errors.
    """
    versions = re.search(r"Python in worker has different version:? \D*(\d+\.\d+)\D", text)
    if versions is not None or "PYTHON_VERSION_MISMATCH" in text:
        worker = f" is {versions[1]}" if versions is not None else " is of another version"
        own = ".".join(map(str, sys.version_info[:2]))
        return (
            f"{executable}, the Python of Spark's workers,{worker} and this one {own}: set"
            f" PYSPARK_PYTHON to a Python {own} with {' and '.join(NEEDED.values())}"
        )
    if any(each in text for each in _NO_PYTHON):
        return (
            f"Spark's workers cannot run {executable}: set PYSPARK_PYTHON to a Python"
            f" {'.'.join(map(str, sys.version_info[:2]))} that is at that place on all of them"
        )
    return None


def check_output(store: "Store") -> None:
    """Raise UserError if nothing can be written to the output."""
    token = f"{_TOKENS}-{secrets.token_hex(8)}"
    with _writing(store):
        store.write_bytes(token, b"")
        store.remove(token)


@contextlib.contextmanager
def _writing(store: "Store") -> Iterator[None]:
    """Raise UserError for errors of a store."""
    try:
        yield
    except OSError as problem:
        raise UserError(f"cannot write to {store.shown()}: {problem.strerror or problem}") from None
