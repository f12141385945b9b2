"""A peer that makes a process log a line for each of its frames: the logs stay small."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.runtime.log_file import LOGS_KEPT
from tests.support.kafka_wire import WireClient, metadata_request, sized
from tests.support.running_cluster import Address, Cluster
from tests.support.waiting import wait_until

FRAMES = 2_000
MAX_BYTES = 16_384
LINE_MAX_BYTES = 4_400


def flood(address: Address) -> None:
    """So many connections, each closed for its one frame."""
    for _ in range(FRAMES):
        with socket.create_connection(address, timeout=30) as peer:
            peer.sendall(sized(b"\x7f\xff" * 8))
            assert peer.recv(64) == b""


def logs_of(cluster: Cluster, name: str) -> list[Path]:
    return list((cluster.data_dir / "logs").glob(f"{name}.log*"))


def told_of(cluster: Cluster, name: str, line: str) -> int:
    """Lines of a kind, and those that were left out."""
    texts = [path.read_text() for path in logs_of(cluster, name)]
    written = sum(len(re.findall(rf": {line}", text)) for text in texts)
    left_out = [
        int(count) for text in texts for count in re.findall(rf'left out (\d+) .*"{line}', text)
    ]
    return written + sum(left_out)


@pytest.mark.slow
def test_a_flood_of_malformed_frames_leaves_small_logs_that_count_every_line(
    new_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILENA_LOG_MAX_BYTES", str(MAX_BYTES))
    cluster = new_cluster(brokers=1).start()
    host, port = cluster.state()["registry"].split(":")
    flood(cluster.addresses[0])
    flood((host, int(port)))
    with WireClient(cluster.addresses[0]) as bystander:
        assert len(bystander.call(metadata_request()).brokers) == 1
    cluster.stop()

    for name, line in (("broker-0", "closed connection from"), ("registry", "closing ")):
        wait_until(lambda n=name, w=line: told_of(cluster, n, w) == FRAMES, f"{name}'s last line")
        logs = logs_of(cluster, name)
        assert 1 < len(logs) <= 1 + LOGS_KEPT
        assert all(path.stat().st_size < MAX_BYTES + LINE_MAX_BYTES for path in logs)
