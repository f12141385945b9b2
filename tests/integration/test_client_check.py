"""`quotas client-check` with a client that pauses as it is told, and with one that does not."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from cluster.tools.main import main
from cluster.tools.quotas.client_check import filled

ROOT = Path(__file__).parents[2]

PAUSING = """
import sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1], client_id="pausing", batch_size=0)
for _ in range(40):
    producer.send(sys.argv[2], b"x" * 10_240)
producer.flush(30)
producer.close()
"""

IMPATIENT = """
import sys
from tests.support.client_quotas import NamedClient, batch
from tests.support.kafka_wire import produce_request
host, _, port = sys.argv[1].rpartition(":")
with NamedClient((host, int(port)), "impatient") as client:
    for _ in range(15):
        client.call(produce_request(sys.argv[2], batch(40_960)))
"""


SECURE = """
import os, sys
from confluent_kafka import Consumer, Producer
settings = dict(
    line.rstrip("\\n").split("=", 1) for line in open(f"{sys.argv[3]}/librdkafka.properties")
)
assert settings["bootstrap.servers"] == sys.argv[1]
assert os.environ["CLIENT_FILES"] == sys.argv[3]
assert os.environ["BOOTSTRAP_SERVERS"] == sys.argv[1]
producer = Producer({**settings, "batch.num.messages": 10})
for _ in range(600):
    producer.produce(sys.argv[2], b"x" * 1_024)
assert producer.flush(60) == 0
consumer = Consumer({**settings, "group.id": "one", "auto.offset.reset": "earliest"})
consumer.subscribe([sys.argv[2]])
for _ in range(600):
    message = consumer.poll(60)
    assert message is not None and message.error() is None
consumer.close()
"""

FORMER = """
import socket, sys, ssl
host, _, port = sys.argv[1].rpartition(":")
context = ssl.create_default_context(cafile=sys.argv[3] + "/ca.pem")
with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as plug:
    plug.sendall(bytes.fromhex("00000011 0011 0000 00000001 ffff 0005") + b"PLAIN")
    assert plug.recv(1) == b""
"""


def checked(capsys: Any, monkeypatch: Any, directory: Path, program: str, *options: str) -> str:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    words = ["--data-dir", str(directory), "quotas", "client-check", "--records", "0", *options]
    script = directory.with_suffix(".py")
    script.write_text(program)
    places = ["{bootstrap}", "{topic}", "{clients}"]
    assert main([*words, "--", sys.executable, str(script), *places]) == 0
    assert not directory.exists()
    told: str = capsys.readouterr().out
    return told


def test_client_check_recognizes_a_client_that_pauses(tmp_path, capsys, monkeypatch):
    told = checked(capsys, monkeypatch, tmp_path / "one", PAUSING, "--json")
    found = json.loads(told)
    assert found["software"].startswith("kafka-python ")
    assert found["recovers"]
    (produced,) = found["requests"]
    assert produced["verdict"] == "pauses"
    assert produced["pauses"]["honours_throttling"]
    assert produced["bytes"] > 40 * 10_240


def test_client_check_recognizes_a_client_that_keeps_sending(tmp_path, capsys, monkeypatch):
    told = checked(capsys, monkeypatch, tmp_path / "two", IMPATIENT, "--markdown", "mine")
    (row,) = told.splitlines()
    assert row.startswith("| mine | does not say | produce | does not pause |")


def test_client_check_reports_a_client_that_does_not_connect_in_one_line(
    tmp_path, capsys, monkeypatch
):
    directory = tmp_path / "three"
    words = ["--data-dir", str(directory), "quotas", "client-check", "--records", "0", "--"]
    assert main([*words, *filled(["false", "{topic}"], {"bootstrap": "", "topic": "t"})]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "error: the client neither produced nor fetched (its status is 1): does it connect to"
        " {bootstrap}, or to BOOTSTRAP_SERVERS?"
    )


def test_client_check_measures_a_client_that_logs_in_over_tls(tmp_path, capsys, monkeypatch):
    found = json.loads(
        checked(capsys, monkeypatch, tmp_path / "four", SECURE, "--secure", "--json")
    )
    assert found["software"].startswith("confluent-kafka-python ")
    assert found["status"] == 0
    assert found["recovers"]
    produced, fetched = found["requests"]
    assert produced["kind"] == "produce"
    assert produced["bytes"] > 600 * 1_024
    assert produced["throttled"] > 0
    assert fetched["bytes"] > 600 * 1_024


def test_client_check_reports_an_unreadable_login_in_one_line(tmp_path, capsys, monkeypatch):
    directory, script = tmp_path / "five", tmp_path / "five.py"
    script.write_text(FORMER)
    words = ["--data-dir", str(directory), "quotas", "client-check", "--records", "0", "--secure"]
    places = ["{bootstrap}", "{topic}", "{clients}"]
    assert main([*words, "--", sys.executable, str(script), *places]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("error: the client logs in by SaslHandshake 0, after which")
