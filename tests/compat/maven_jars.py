"""Jars from a Maven repository, fetched into a cache for tests and benchmarks."""

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.compat.installing import one_at_a_time

SLF4J: Final = (
    "1.7.36"  # the version that Kafka's own dependencies ask for; `simple` logs to stderr
)
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>milena</groupId><artifactId>jars-for-tests</artifactId><version>1</version>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


def dependency(group: str, artifact: str, version: str, *exclusions: tuple[str, str]) -> str:
    """A dependency in a project's file; `exclusions` are groups and artifacts."""
    excluded = "".join(
        f"        <exclusion><groupId>{each}</groupId><artifactId>{name}</artifactId></exclusion>\n"
        for each, name in exclusions
    )
    return (
        "    <dependency>\n"
        f"      <groupId>{group}</groupId><artifactId>{artifact}</artifactId>\n"
        f"      <version>{version}</version>\n"
        + (f"      <exclusions>\n{excluded}      </exclusions>\n" if excluded else "")
        + "    </dependency>\n"
    )


def class_path(directory: Path, needed: Collection[str]) -> str | None:
    """For `java -cp`, when the needed jars are in the directory, and Java is here; else None."""
    jars = directory / "jars"
    is_here = shutil.which("java") is not None and all((jars / name).exists() for name in needed)
    return f"{jars}/*" if is_here else None


def fetch(
    directory: Path, dependencies: Collection[str], needed: Collection[str], timeout_s: float
) -> str:
    """Download what is missing; an empty text, or why that failed.

    Other processes see either nothing or all of it.
    """
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no Maven (mvn)"
    with one_at_a_time("maven"):
        if class_path(directory, needed):
            return ""
        return _fetch(maven, directory, dependencies, timeout_s)


def _fetch(maven: str, directory: Path, dependencies: Collection[str], timeout_s: float) -> str:
    arriving, jars = directory / "arriving", directory / "jars"
    shutil.rmtree(arriving, ignore_errors=True)  # of a download that was cut off
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(_POM.format(dependencies="".join(dependencies)))
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
