"""What tests fetch is there as a whole or not at all, whoever looks meanwhile."""

import sys
from pathlib import Path

from tests.compat import kafka_jvm, maven_jars

# A Maven that has brought what is looked for when it fails, as when others are still to come.
MAVEN = """\
#!{python}
import pathlib, sys
(words,) = [each for each in sys.argv if each.startswith("-DoutputDirectory=")]
folder = pathlib.Path(words.partition("=")[2])
folder.mkdir(parents=True)
for name in ("kafka_2.13-1.0.jar", "kafka-tools-1.0.jar", "slf4j-simple-{slf4j}.jar"):
    (folder / name).touch()
sys.exit({status})
"""


def install_maven(folder: Path, status: int) -> None:
    maven = folder / "mvn"
    maven.write_text(MAVEN.format(python=sys.executable, slf4j=maven_jars.SLF4J, status=status))
    maven.chmod(0o755)


def test_jars_are_seen_when_all_of_them_have_come(tmp_path, monkeypatch):
    java = tmp_path / "java"
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for module in ("kafka_jvm", "installing"):
        monkeypatch.setattr(f"tests.compat.{module}.CACHE", tmp_path / "cache")
    install_maven(tmp_path, status=1)
    assert kafka_jvm.fetch(version="1.0") == "Maven failed: "
    assert kafka_jvm.class_path("1.0") is None
    install_maven(tmp_path, status=0)
    assert kafka_jvm.fetch(version="1.0") == ""
    jars = kafka_jvm.class_path("1.0")
    assert jars is not None
    assert len(list(Path(jars).parent.iterdir())) == 3
    (tmp_path / "mvn").write_text("#!/bin/false\n")
    assert kafka_jvm.fetch(version="1.0") == "", "there is nothing to do"
