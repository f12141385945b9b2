"""What tests need to start Spark, or the reason to leave it out."""

import tempfile
from pathlib import Path

import psutil
import pytest

from cluster.analytics.rollup.java_process import NoJava, find_java
from tests.support import spark_classes


def need_spark() -> None:
    """Skip the calling module unless PySpark and a Java are there."""
    for module in ("pyspark", "pyarrow"):
        pytest.importorskip(module, reason=f"{module} is missing: it comes with the extra `rollup`")
    with tempfile.TemporaryDirectory() as directory:
        try:
            find_java(Path(directory))
        except NoJava as none:
            pytest.skip(str(none), allow_module_level=True)
    spark_classes.use()


def java_log() -> Path:
    """The file that the Java of this process writes to, which whoever started it has chosen."""
    (java,) = filter(_is_java, psutil.Process().children(recursive=True))
    return Path(f"/proc/{java.pid}/fd/1").readlink()


def _is_java(process: psutil.Process) -> bool:
    try:
        return "pyspark-shell" in process.cmdline()
    except psutil.Error:  # it has ended, or is about to
        return False
