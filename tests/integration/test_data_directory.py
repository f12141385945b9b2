"""A data directory that belongs to another broker, another cluster or a running one is refused."""

from collections.abc import Callable

import pytest

from tests.support.running_cluster import Cluster

NewCluster = Callable[..., Cluster]


@pytest.mark.parametrize(
    ("key", "theirs"), [("broker.id", "7"), ("cluster.id", "AAAAAAAAAAAAAAAAAAAAAA")]
)
def test_data_directory_of_another_cluster_is_refused(
    new_cluster: NewCluster, key: str, theirs: str
) -> None:
    cluster = new_cluster(brokers=1).start()
    ours = {"broker.id": "0", "cluster.id": cluster.status()["cluster_id"]}[key]
    cluster.stop()
    properties = cluster.log_dir(0) / "meta.properties"
    text = properties.read_text()
    assert f"{key}={ours}" in text
    properties.write_text(text.replace(f"{key}={ours}", f"{key}={theirs}"))

    failed = cluster.command("start", "--detach", "--port=0", "--registry-port=0", check=False)

    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("Cannot start")]
    assert theirs in line
    assert ours in line
    assert str(cluster.log_dir(0)) in line
    properties.write_text(text)
    cluster.start()


def test_data_directory_in_use_is_refused(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1).start()

    again = cluster.command("start", "--detach")

    assert "already running" in again.stdout
