"""Data directories that are another's, in use, older or newer, copied and moved."""

import json
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.running_cluster import Cluster

NewCluster = Callable[..., Cluster]
OLD_DIRECTORIES = Path(__file__).parents[1] / "support" / "data_directories"


def records(cluster: Cluster, topic: str, count: int) -> list[str]:
    words = ("--from-beginning", "--max-messages", str(count))
    return cluster.command("consume", "--topic", topic, *words).stdout.splitlines()


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


def test_directory_of_version_0_starts_with_all_that_it_holds(new_cluster: NewCluster) -> None:
    """The archive is the data directory of a stopped cluster from before there were versions."""
    cluster = new_cluster(brokers=1)
    with tarfile.open(OLD_DIRECTORIES / "version-0.tar.xz") as archive:
        archive.extractall(cluster.data_dir, filter="data")
    before = json.loads((cluster.data_dir / "cluster.json").read_text())
    assert "data_version" not in before

    cluster.start()

    assert records(cluster, "orders", 3) == ["order 1", "order 2", "order 3"]
    group = cluster.command("groups", "--describe", "--group", "readers").stdout
    assert group.splitlines()[-1].split()[:6] == ["readers", "orders", "0", "2", "3", "1"]
    listed = cluster.command("quotas", "list").stdout
    assert re.search(r"^client id billing +client +1.00 MiB/s$", listed, re.MULTILINE)
    after = json.loads((cluster.data_dir / "cluster.json").read_text())
    assert (after["data_version"], after["cluster_id"]) == (1, before["cluster_id"])


def test_directory_of_a_newer_version_is_refused_before_it_is_touched(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(brokers=1)
    cluster.data_dir.mkdir()
    path = cluster.data_dir / "cluster.json"
    newer = {"format": "milena-cluster-1", "data_version": 1_000, "written_by": "99.0"}
    path.write_text(json.dumps(newer))
    failed = cluster.command("start", "--detach", check=False)
    assert failed.returncode == 1
    assert "was written by Milena 99.0 (data version 1000); this is Milena" in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert json.loads(path.read_text()) == newer
    assert [each.name for each in cluster.data_dir.iterdir()] == ["cluster.json"]


def test_copy_of_a_stopped_secure_cluster_works_beside_the_original(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    original = new_cluster(brokers=1, secure=True).start()
    original.command("topics", "--create", "--topic", "t", "--partitions", "1")
    written = tmp_path / "written"
    written.write_text("one\ntwo\n")
    original.command("produce", "--topic", "t", "--file", str(written))
    original.stop()
    copy = new_cluster(brokers=1, secure=True)
    subprocess.run(["cp", "-a", original.data_dir, copy.data_dir], check=True)

    copy.start()
    original.start()

    for cluster in (original, copy):
        assert records(cluster, "t", 2) == ["one", "two"]
        texts = {
            path.name: path.read_text()
            for path in cluster.data_dir.glob("clients/*.*")
            if path.suffix in (".properties", ".json", ".conf")
        }
        other = copy if cluster is original else original
        assert texts["kcat.conf"].count(f"{cluster.data_dir}/clients/") == 1
        assert not [name for name, text in texts.items() if f"{other.data_dir}/" in text]
