"""Names with newlines or terminal escapes cannot forge log lines or move a terminal's cursor."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cluster.protocol.api import ApiKey
from tests.support.broker_probes import batch_of
from tests.support.kafka_wire import ClosedByPeer, WireClient, produce_request, request
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, create_topics_request
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
FORGED = "nl\n2026-01-01 00:00:00.000 ERROR   forged: line"
NASTY = f"{FORGED}\r\x1b[2J\x1b]0;title\x07\x9b\u202egnp\u2028\u200f[red]x"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ +[a-z_.]+: |    ")


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("troubled"), brokers=1) as one:
        yield one


@pytest.fixture(scope="module")
def told(troubled: Cluster) -> Cluster:
    """The cluster, after clients have sent every kind of name that it logs or shows."""
    topic = create_topic(troubled, "orders", replication_factor=1)
    with WireClient(troubled.addresses[0], client_id=NASTY) as client:
        client.call(
            request(
                ApiKey.METADATA,
                12,
                include_topic_authorized_operations=False,
                topics=[{"topic_id": None, "name": NASTY}],
                allow_auto_topic_creation=True,
            )
        )
        client.call(create_topics_request(NASTY))
        for entity in ([("client-id", NASTY)], [("user", NASTY)]):
            client.call(
                request(
                    ApiKey.ALTER_CLIENT_QUOTAS,
                    1,
                    validate_only=False,
                    entries=[
                        {
                            "entity": [
                                {"entity_type": kind, "entity_name": name} for kind, name in entity
                            ],
                            "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
                        }
                    ],
                )
            )
        client.call(produce_request(topic, bytes(batch_of(NASTY.encode()))))
    with WireClient(troubled.addresses[0]) as client, pytest.raises(ClosedByPeer):
        client.call(produce_request(NASTY, bytes(batch_of(b"v")), acks=0))
    registry = KazooClient(troubled.state()["registry"])
    registry.start(timeout=30)
    registry.create("/nasty", b"data\x1b[2J\n second")
    registry.create("/nasty/\u202egnp\u200f", b"")
    registry.stop()
    registry.close()
    return troubled


def logs_of(cluster: Cluster) -> dict[str, str]:
    return {
        path.name: path.read_bytes().decode("utf-8")
        for path in (cluster.data_dir / "logs").iterdir()
    }


def test_foreign_names_are_escaped_and_begin_no_log_line(told):
    wait_until(lambda: "produce with acks=0 to nl" in logs_of(told)["broker-0.log"], "the line")
    for text in logs_of(told).values():
        assert not UNSAFE.search(text)
        assert [line for line in text.split("\n") if line and not OURS.match(line)] == []
    text = logs_of(told)["broker-0.log"]
    assert r"quotas of client-id 'nl\n2026-01-01" in text
    assert r"produce with acks=0 to nl\n2026-01-01" in text


def shown(cluster: Cluster, *words: str, on_terminal: bool = False) -> str:
    """What a command prints, without the carriage returns of a terminal."""
    command = [sys.executable, "-P", "-m", "cluster", "--data-dir", str(cluster.data_dir), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not on_terminal:
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=60, check=True
        ).stdout.decode()
    ours, theirs = os.openpty()
    done = subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    received = b""
    try:
        while part := os.read(ours, 65_536):
            received += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert done.wait(60) == 0
    return received.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("on_terminal", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("quotas", "list"),
        ("quotas", "watch", "--once", "--all"),
        ("configs", "--describe", "--entity-type", "clients"),
        ("configs", "--describe", "--entity-type", "users"),
        ("registry", "ls", "--recursive", "/config"),
        ("registry", "ls", "/nasty"),
    ],
)
def test_a_command_shows_a_foreign_name_on_its_own_line(told, words, on_terminal):
    text = shown(told, *words, on_terminal=on_terminal)
    assert not UNSAFE.search(text)
    assert "\\u202e" in text or "%E2%80%AE" in text
    assert not any(line.startswith("2026-01-01") for line in text.splitlines())


def test_the_data_of_a_znode_keep_their_lines(told):
    assert shown(told, "registry", "get", "/nasty") == "data\\x1b[2J\n second\n"


def test_a_record_is_printed_as_it_is_to_a_pipe_and_spelled_out_on_a_terminal(told):
    words = ("consume", "--topic", "orders", "--from-beginning", "--max-messages", "1")
    assert shown(told, *words) == NASTY + "\n"
    text = shown(told, *words, on_terminal=True)
    assert not UNSAFE.search(text)
    assert text.startswith("nl\n2026-01-01 00:00:00.000 ERROR   forged: line\\r\\x1b[2J")
