"""A real Prometheus: the one that is installed, or Debian's package unpacked into the cache."""

import contextlib
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.debian_packages import debian_program
from tests.support.running_cluster import HOST, free_ports
from tests.support.waiting import wait_until

CONFIGURATION = Path(__file__).parents[2] / "etc" / "prometheus.yml"
INTERVAL_S = 5
"""As the configuration says."""


def program(name: str) -> str:
    """`prometheus` or `promtool`; skips the test where there is none."""
    return debian_program(name, "prometheus").path


class PrometheusServer:
    """One that scrapes `/metrics` of a dashboard."""

    def __init__(self, port: int) -> None:
        self._url = f"http://{HOST}:{port}"

    def ask(self, expression: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """The result of an instant query, of now or of another moment (since 1970)."""
        query = urllib.parse.urlencode(
            {"query": expression, **({} if at_s is None else {"time": f"{at_s:.3f}"})}
        )
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{query}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success"
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def value(self, expression: str) -> float | None:
        """That of the only series, None if there is none."""
        result = self.ask(expression)
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def running_prometheus(folder: Path, dashboard_port: int) -> Iterator[PrometheusServer]:
    """Scrapes the dashboard at this port, as etc/prometheus.yml has it; ends with the block."""
    port = free_ports(1)
    config = folder / "prometheus.yml"
    shipped = CONFIGURATION.read_text()
    assert f"scrape_interval: {INTERVAL_S}s\n" in shipped
    config.write_text(shipped.replace("localhost:9292", f"{HOST}:{dashboard_port}"))
    with (folder / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={HOST}:{port}",
            ],
            stdout=output,
            stderr=output,
        )
    server = PrometheusServer(port)
    try:
        wait_until(server.is_ready, "Prometheus to be ready")
        yield server
    finally:
        process.terminate()
        process.wait(30)
