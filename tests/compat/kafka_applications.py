"""Kafka Streams and Kafka Connect of the newest Kafka, fetched by Maven into a cache for tests."""

import functools
import shutil
from typing import Final

import pytest

from tests.compat import maven_jars
from tests.compat.installing import CACHE, may_install, need_beyond_pypi
from tests.compat.kafka_jvm import KAFKA, NEWEST, SIMPLE_LOGS
from tests.compat.maven_jars import SLF4J, dependency

_ARTIFACTS: Final = ("kafka-streams", "connect-runtime", "connect-file", "connect-json")
_NEEDED: Final = (
    *(f"{artifact}-{NEWEST}.jar" for artifact in _ARTIFACTS),
    f"slf4j-simple-{SLF4J}.jar",
)
_DIRECTORY: Final = CACHE / f"applications-{NEWEST}"
_FETCH_S: Final = 300.0


def require_applications() -> str:
    """The class path; skips the running test where the jars are not and must not be fetched."""
    need_beyond_pypi("Kafka Streams and Kafka Connect")
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    found, problem = _class_path()
    if found is None:
        pytest.skip(problem)
    return found


@functools.cache
def _class_path() -> tuple[str | None, str]:
    found = maven_jars.class_path(_DIRECTORY, _NEEDED)
    problem = "no Kafka Streams; MILENA_TEST_INSTALL=1 fetches it"
    if found is None and may_install():
        artifacts = [dependency(KAFKA, artifact, NEWEST) for artifact in _ARTIFACTS]
        problem = maven_jars.fetch(_DIRECTORY, [*artifacts, SIMPLE_LOGS], _NEEDED, _FETCH_S)
        found = maven_jars.class_path(_DIRECTORY, _NEEDED)
    return found, problem
