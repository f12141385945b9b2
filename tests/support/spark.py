"""What tests need to start Spark, or the reason to leave it out."""

import tempfile
from pathlib import Path

import pytest

from cluster.analytics.rollup.java_process import NoJava, find_java


def need_spark() -> None:
    """Skip the calling module unless PySpark and a Java are there."""
    for module in ("pyspark", "pyarrow"):
        pytest.importorskip(module, reason=f"{module} is missing: it comes with the extra `rollup`")
    with tempfile.TemporaryDirectory() as directory:
        try:
            find_java(Path(directory))
        except NoJava as none:
            pytest.skip(str(none), allow_module_level=True)
