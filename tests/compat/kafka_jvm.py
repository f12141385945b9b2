"""Apache Kafka with its tools, fetched by Maven into a cache for tests and benchmarks.

python -m tests.compat.kafka_jvm [VERSION]      fetch it, print its class path
"""

import shutil
import subprocess
import sys

from tests.compat.installing import CACHE, one_at_a_time

VERSION = "3.9.1"  # the last line with ZooKeeper mode
NEWEST = "4.1.0"  # without ZooKeeper; the newer consumer protocol is on
SLF4J = "1.7.36"  # the version that Kafka's own dependencies ask for; `simple` logs to stderr
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>milena</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>VERSION</version>
      <exclusions>
        <exclusion><!-- Kafka Connect: only its own tools need it -->
          <groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId>
        </exclusion>
        <exclusion><!-- a second one beside slf4j-simple -->
          <groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId>
        </exclusion>
        <exclusion><!-- the same, in the newest -->
          <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>
      <version>SLF4J</version>
    </dependency>
  </dependencies>
</project>
"""


def class_path(version: str = VERSION) -> str | None:
    """For `java -cp`, when that version of Kafka is in the cache; else None."""
    jars = CACHE / version / "jars"
    needed = [
        f"kafka_2.13-{version}.jar",
        f"kafka-tools-{version}.jar",
        f"slf4j-simple-{SLF4J}.jar",
    ]
    is_here = shutil.which("java") is not None and all((jars / name).exists() for name in needed)
    return f"{jars}/*" if is_here else None


def fetch(timeout_s: float = 300, version: str = VERSION) -> str:
    """Download what is missing; an empty text, or why that failed.

    Other processes see either nothing or all of it.
    """
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no Maven (mvn)"
    with one_at_a_time("maven"):
        return "" if class_path(version) else _fetch(maven, timeout_s, version)


def _fetch(maven: str, timeout_s: float, version: str) -> str:
    directory = CACHE / version
    arriving, jars = directory / "arriving", directory / "jars"
    shutil.rmtree(arriving, ignore_errors=True)  # of a download that was cut off
    directory.mkdir(parents=True, exist_ok=True)
    pom = _POM.replace("VERSION", version).replace("SLF4J", SLF4J)
    (directory / "pom.xml").write_text(pom)
    command = [
        maven,
        "-q",
        "-B",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={arriving}",
    ]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not finish within {timeout_s:g} s"
    if done.returncode != 0:
        return f"Maven failed: {done.stdout.strip()[-200:]}"
    shutil.rmtree(jars, ignore_errors=True)
    arriving.rename(jars)
    return ""


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else VERSION
    problem = fetch(version=wanted)
    if problem:
        sys.exit(problem)
    print(class_path(wanted))
