"""Apache Kafka with its tools, fetched by Maven into a cache for tests and benchmarks.

python -m tests.compat.kafka_jvm [VERSION]      fetch it, print its class path
"""

import sys
from typing import Final

from tests.compat import maven_jars
from tests.compat.installing import CACHE
from tests.compat.maven_jars import SLF4J, dependency

VERSION: Final = "3.9.1"  # the last line with ZooKeeper mode
NEWEST: Final = "4.1.0"  # without ZooKeeper; the newer consumer protocol is on
KAFKA: Final = "org.apache.kafka"
SIMPLE_LOGS: Final = dependency("org.slf4j", "slf4j-simple", SLF4J)


def _dependencies(version: str) -> list[str]:
    return [
        dependency(KAFKA, "kafka_2.13", version),
        dependency(
            KAFKA,
            "kafka-tools",
            version,
            (KAFKA, "connect-runtime"),  # only the tools of Kafka Connect need it
            ("org.slf4j", "slf4j-reload4j"),  # a second one beside slf4j-simple
            ("org.apache.logging.log4j", "log4j-slf4j-impl"),  # the same, in the newest
        ),
        SIMPLE_LOGS,
    ]


def _needed(version: str) -> list[str]:
    return [
        f"kafka_2.13-{version}.jar",
        f"kafka-tools-{version}.jar",
        f"slf4j-simple-{SLF4J}.jar",
    ]


def class_path(version: str = VERSION) -> str | None:
    """For `java -cp`, when that version of Kafka is in the cache; else None."""
    return maven_jars.class_path(CACHE / version, _needed(version))


def fetch(timeout_s: float = 300, version: str = VERSION) -> str:
    """Download what is missing; an empty text, or why that failed."""
    needed = _needed(version)
    return maven_jars.fetch(CACHE / version, _dependencies(version), needed, timeout_s)


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else VERSION
    problem = fetch(version=wanted)
    if problem:
        sys.exit(problem)
    print(class_path(wanted))
