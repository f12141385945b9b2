"""Kafka Connect writes what it reads from a source exactly once, though workers are killed."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compat.kafka_applications import require_applications
from tests.compat.kafka_process import java_command
from tests.support.copier_scenes import SETTINGS
from tests.support.recording_producer import read_all
from tests.support.running_cluster import HOST, Cluster, free_ports
from tests.support.telling_program import TellingProgram
from tests.support.topics import create_topic, leader
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

WORKER: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
CONNECTOR: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
REQUEST_S: Final = 10.0
SESSION_MS: Final = 2_000
TOPIC: Final = "lines"
KINDS: Final = ("config", "offset", "status")
"""What a worker stores in topics of its own."""


class Worker(TellingProgram):
    """A worker in distributed mode."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._url = f"http://{HOST}:{free_ports(1)}"
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "connect",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in KINDS},
            **{f"{kind}.storage.replication.factor": "-1" for kind in KINDS},
            "exactly.once.source.support": "enabled",
            "listeners": self._url,
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "500",
            "plugin.discovery": "service_load",
        }
        file = directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__([*java_command(directory, jars=require_applications()), WORKER, file])

    def asked(self, method: str, path: str, body: object = None) -> Any:
        """The answer; None while it does not serve, or serves no such request yet."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            refused.close()
            return None
        except OSError:
            return None


class Source:
    """A file with numbered lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[bytes] = []
        path.touch()

    def write(self, count: int) -> None:
        """Add so many lines."""
        added = [b"line %d" % number for number in range(len(self.lines), len(self.lines) + count)]
        with self.path.open("ab") as file:
            file.write(b"\n".join([*added, b""]))
        self.lines += added


def test_lines_of_a_file_are_written_once_over_kills_of_worker_and_leader(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(
        overrides=SETTINGS | {"group.min.session.timeout.ms": str(SESSION_MS)}
    ).start()
    create_topic(cluster, TOPIC)
    source = Source(tmp_path / "lines.txt")

    def wait_until_copied() -> None:
        """A committed read has each line once and in order."""

        def copied() -> list[bytes]:
            return list(read_all(cluster, TOPIC)[0].values())

        try:
            wait_until(lambda: len(copied()) >= len(source.lines), "the lines")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{worker.complaint()}") from None
        assert copied() == source.lines

    with Worker(cluster, tmp_path) as worker:
        connector = {
            "connector.class": CONNECTOR,
            "file": str(source.path),
            "topic": TOPIC,
            "exactly.once.support": "required",
        }
        wait_until(
            lambda: worker.asked("PUT", "/connectors/lines/config", connector), "the connector"
        )
        source.write(100)
        wait_until_copied()
        for _ in range(2):
            source.write(1_000)
            worker.kill_and_start()
            source.write(100)
            wait_until_copied()
        cluster.kill(leader(cluster, TOPIC))
        source.write(100)
        wait_until_copied()
        status = wait_until(lambda: worker.asked("GET", "/connectors/lines/status"), "the status")
        assert [task["state"] for task in status["tasks"]] == ["RUNNING"]
