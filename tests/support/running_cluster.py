"""The clusters of the tests: `LocalCluster` with small files, ports of their own and kept logs."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from cluster.launch.options import StartOptions
from cluster.local.local_cluster import Address, CommandFailed, LocalCluster
from cluster.model.addresses import LOOPBACK as HOST
from cluster.runtime.ports import free_ports

__all__ = ["HOST", "Address", "Cluster", "CommandFailed", "free_ports"]

_DEFAULT_OVERRIDES = {
    # Tests make many small partitions: 16 MiB each on every broker would fill the disk.
    "milena.log.preallocate.step.bytes": "262144",
}


class Cluster(LocalCluster):
    """A cluster of one test or of one module of tests."""

    def __init__(
        self,
        data_dir: Path,
        *,
        brokers: int | None = 3,
        broker_ids: str | None = None,
        overrides: Mapping[str, str] | None = None,
        installed: Path | None = None,
        secure: bool = False,
        registry_host: str = HOST,
        dashboard: bool = False,
        racks: str | None = None,
    ) -> None:
        """`installed` is a `milena` command to use instead of this checkout. `dashboard`: whether
        it has one, which most tests do not use. `broker_ids`: instead of 0, 1, ..., with `brokers`
        None.
        """
        settings = {**_DEFAULT_OVERRIDES, **(overrides or {})}
        options = StartOptions(
            data_dir,
            brokers,
            broker_ids=broker_ids,
            port=0,
            registry_port=0,
            registry_host=registry_host,
            overrides=tuple(f"{key}={value}" for key, value in settings.items()),
            secure=secure,
            racks=racks,
            has_dashboard=dashboard,
            dashboard_port=0,
        )
        super().__init__(options, program=installed, keeps_logs=True)

    def start_in_foreground(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Begin to start it; what it prints goes to a file."""
        return subprocess.Popen(
            self.command_line("start", *self.start_options),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    @property
    def start_options(self) -> list[str]:
        """The options of `start` that make this cluster, in the foreground."""
        return [word for word in self.options.arguments() if word != "--detach"]

    def status(self) -> dict[str, Any]:
        """`status --json`."""
        state: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return state

    def pid(self, broker: int) -> int | None:
        """The broker's process, if it has one."""
        pid: int | None = self.state()["brokers"][broker]["pid"]
        return pid

    def log_text(self, name: str) -> str:
        """What a process (`broker-0`, `registry`, `supervisor`) has logged so far."""
        path = self.log_path(name)
        return path.read_text() if path.exists() else ""

    def log_lines(self, broker: int, part: str) -> list[str]:
        """The lines of a broker's log that contain a text, without one that is being written."""
        whole_lines = self.log_text(f"broker-{broker}").split("\n")[:-1]
        return [line for line in whole_lines if part in line]
