"""Missing requirements of Spark and its workers are reported in one line before reading."""

import json
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra `windows`")

from cluster.analytics.rollup import preflight
from cluster.analytics.rollup.preflight import (
    check_addresses,
    check_output,
    check_pyspark,
    check_report,
    is_remote,
    report,
    why_no_worker,
)
from cluster.analytics.windows.store import LocalStore
from cluster.model.errors import UserError

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("installed", ["4.1.9", "4.4.0", "3.5.1", "5.0.0.dev1"])
def test_untested_pyspark_is_refused(monkeypatch, installed):
    monkeypatch.setattr(preflight, "version", lambda _: installed)
    with pytest.raises(
        UserError, match=rf"^PySpark {re.escape(installed)} is installed, but .*4.2"
    ):
        check_pyspark()


@pytest.mark.parametrize("installed", ["4.2.0", "4.3.1", "4.3.0.dev2"])
def test_tested_pyspark_is_accepted(monkeypatch, installed):
    monkeypatch.setattr(preflight, "version", lambda _: installed)
    check_pyspark()


def test_missing_pyspark_names_the_package_to_install(monkeypatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(preflight, "version", missing)
    with pytest.raises(UserError, match=r"^PySpark is missing: pip install 'pyspark>=4.2,<4.4'$"):
        check_pyspark()


def test_the_versions_are_those_of_the_package():
    least, below = (".".join(map(str, each)) for each in preflight.TESTED)
    assert f'"pyspark>={least},<{below}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", False),
        ("local-cluster[2,1,1024]", False),
        ("spark://127.0.0.1:7077", False),
        ("spark://localhost:7077", False),
        ("spark://[::1]:7077", False),
        ("spark://10.0.0.1:7077", True),
        ("spark://spark-master:7077", True),
        ("yarn", True),
        ("k8s://https://10.0.0.1:6443", True),
    ],
)
def test_is_remote_knows_masters_with_remote_workers(master, expected):
    assert is_remote(master) == expected


def test_brokers_that_only_this_machine_reaches_are_refused_for_a_remote_master():
    check_addresses("local[*]", "127.0.0.1:9092", ["127.0.0.1"])
    check_addresses("spark://10.0.0.1:7077", "10.0.0.2:9092,[fd00::1]:9092", ["broker-1"])
    with pytest.raises(UserError, match=r"cannot reach localhost:9092, .* --bootstrap-server"):
        check_addresses("spark://10.0.0.1:7077", "10.0.0.2:9092, localhost:9092", ["broker-1"])
    with pytest.raises(UserError, match=r"advertise 127.0.0.2: start the .*--advertised-host"):
        check_addresses("yarn", "10.0.0.2:9092", ["10.0.0.2", "127.0.0.2"])


def test_a_worker_that_has_everything_passes(tmp_path):
    (tmp_path / "token").write_text("")
    found = json.loads(report(str(tmp_path), "token"))
    assert found["python"] == sys.executable
    assert found["version"] == platform.python_version()
    check_report(found, str(tmp_path))


def test_a_worker_without_packages_is_told_with_its_python(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "find_spec", lambda _: None)
    with pytest.raises(
        UserError, match=rf"^{sys.executable} of Spark's worker on .* lacks pyarrow and"
    ):
        check_report(json.loads(report(str(tmp_path), None)), str(tmp_path))


def test_a_worker_that_does_not_see_the_output_is_told(tmp_path):
    with pytest.raises(UserError, match=rf"does not see {tmp_path}: give an --output that all"):
        check_report(json.loads(report(str(tmp_path / "elsewhere"), "token")), str(tmp_path))
    with pytest.raises(
        UserError, match=r"does not see s9://b/w \(cannot keep windows at s9://b/w: .*\): give"
    ):
        check_report(json.loads(report("s9://b/w", "token")), "s9://b/w")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in"
            " driver: 3.11, PySpark cannot run with different minor versions.",
            r"^/usr/bin/python3, the Python of Spark's workers, is 3\.9 and this one 3\.\d+: set",
        ),
        (
            'java.io.IOException: Cannot run program "/usr/bin/python3": error=2, No such file',
            "^Spark's workers cannot run /usr/bin/python3: set PYSPARK_PYTHON to a Python 3",
        ),
        (
            "EOFException occurred while reading the port number from pyspark.daemon's stdout.",
            "^Spark's workers cannot run /usr/bin/python3: set PYSPARK_PYTHON to a Python 3",
        ),
    ],
)
def test_why_no_worker_explains_sparks_error(text, expected):
    assert re.match(expected, why_no_worker(text, "/usr/bin/python3") or "")
    assert why_no_worker("something else", "/usr/bin/python3") is None


def test_an_output_that_cannot_be_written_is_told(tmp_path):
    check_output(LocalStore(tmp_path / "windows"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^cannot write to .*/file/windows: [A-Z][a-z ]+$"):
        check_output(LocalStore(tmp_path / "file" / "windows"))
