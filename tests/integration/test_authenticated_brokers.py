"""Brokers that log in to their registry, and whose links have keys, over deaths and restarts."""

import json
from collections.abc import Callable

import pytest
import zmq
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError

from cluster.datadir.paths import DataDir
from cluster.datadir.registry_auth import make_registry_auth, registry_access
from cluster.tools.main import main
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import assert_replicas_are_equal
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until


def test_restart_replaces_the_link_keys_and_loses_no_record(
    new_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = new_cluster()
    files = DataDir(cluster.data_dir)
    files.path.mkdir()
    make_registry_auth(files)
    password = registry_access(files.registry_auth_file).password
    cluster.start()
    topic = create_topic(cluster)
    recorder = Recorder(cluster, topic, enable_idempotence=True)
    keys = set()
    with recorder.producing("load"):
        for _ in range(2):
            old = leader(cluster, topic)
            keys.add(replication_endpoint(cluster, old, capsys).partition("#")[2])
            count = recorder.acknowledged_count
            wait_until(lambda count=count: recorder.acknowledged_count > count + 100, "load")
            cluster.kill(old)  # the supervisor closes its session and starts it again
            wait_until(lambda old=old: leader(cluster, topic) not in (old, -1), "another leader")
            wait_for_isr(cluster, topic, 3)
            keys.add(replication_endpoint(cluster, old, capsys).partition("#")[2])
    assert len(keys) >= 3  # the second victim may be the first, with its new key
    assert recorder.failed == []
    assert list(read_all(cluster, topic)[0].values()) == recorder.sent[0]
    strangers_are_refused(cluster, capsys)
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)
    for name in ("registry", "supervisor", *(f"broker-{broker}" for broker in range(3))):
        assert password not in cluster.log_text(name)
        assert "Traceback" not in cluster.log_text(name)
    written = [*(cluster.data_dir / "registry").iterdir()]
    assert {path.stat().st_mode & 0o077 for path in written} == {0}


def replication_endpoint(cluster: Cluster, broker: int, capsys: pytest.CaptureFixture[str]) -> str:
    """The endpoint in what the command `registry` prints."""
    asked = ["registry", "--data-dir", str(cluster.data_dir), "get", f"/brokers/ids/{broker}"]
    capsys.readouterr()
    assert main(asked) == 0
    endpoint: str = json.loads(capsys.readouterr().out)["milena"]["replication"]
    return endpoint


def strangers_are_refused(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """At the registry, and at a link, be it by a key of its own."""
    stranger = KazooClient(f"{HOST}:{cluster.registry_port}")
    stranger.start(timeout=20)
    with pytest.raises((AuthFailedError, SessionClosedRequireSaslError)):
        stranger.get("/brokers/ids/0")
    stranger.stop()
    stranger.close()
    address, _, key = replication_endpoint(cluster, 0, capsys).partition("#")
    context = zmq.Context()
    asking = context.socket(zmq.DEALER)
    asking.setsockopt(zmq.LINGER, 0)
    asking.curve_publickey, asking.curve_secretkey = zmq.curve_keypair()
    asking.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(key))
    asking.connect(address)
    asking.send(b"anything")
    refused = "is not that of a registered broker"
    wait_until(lambda: refused in cluster.log_text("broker-0"), "the refusal")
    context.destroy(linger=0)
