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


def checked(capsys: Any, monkeypatch: Any, directory: Path, program: str, *options: str) -> str:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    words = ["--data-dir", str(directory), "quotas", "client-check", "--records", "0", *options]
    script = directory.with_suffix(".py")
    script.write_text(program)
    assert main([*words, "--", sys.executable, str(script), "{bootstrap}", "{topic}"]) == 0
    assert not directory.exists()
    told: str = capsys.readouterr().out
    return told


def test_a_client_that_pauses(tmp_path, capsys, monkeypatch):
    told = checked(capsys, monkeypatch, tmp_path / "one", PAUSING, "--json")
    found = json.loads(told)
    assert found["software"].startswith("kafka-python ")
    assert found["recovers"]
    (produced,) = found["requests"]
    assert produced["verdict"] == "pauses"
    assert produced["pauses"]["honours_throttling"]
    assert produced["bytes"] > 40 * 10_240


def test_a_client_that_goes_on_sending(tmp_path, capsys, monkeypatch):
    told = checked(capsys, monkeypatch, tmp_path / "two", IMPATIENT, "--markdown", "mine")
    (row,) = told.splitlines()
    assert row.startswith("| mine | does not say | produce | does not pause |")


def test_a_client_that_does_not_connect_is_one_line(tmp_path, capsys, monkeypatch):
    directory = tmp_path / "three"
    words = ["--data-dir", str(directory), "quotas", "client-check", "--records", "0", "--"]
    assert main([*words, *filled(["false", "{topic}"], {"bootstrap": "", "topic": "t"})]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "error: the client neither produced nor fetched (its status is 1): does it connect to"
        " {bootstrap}, or to BOOTSTRAP_SERVERS?"
    )
