"""Reaching brokers: addresses, the first contact, refusals."""

import argparse
import socket
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from cluster.model.errors import UserError
from cluster.tools import kafka_connection
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import (
    addresses,
    client_properties,
    connect,
    explained,
    security_of,
    servers_of,
)


class FakeClient:
    """Remembers its settings; answers, or says what is wrong."""

    def __init__(self, settings: dict[str, object], problem: KafkaError | None = None) -> None:
        self.settings = settings
        self.problem = problem
        self.asked = 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> None:
        self.asked += 1
        if self.problem is not None:
            raise KafkaException(self.problem)


def arguments(servers: str, *properties: tuple[str, str]) -> argparse.Namespace:
    return argparse.Namespace(
        bootstrap_server=servers, command_properties=list(properties), data_dir=Path("/no/such")
    )


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def deaf():
    """An address that refuses: bound, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_addresses_are_read_as_clients_read_them():
    assert addresses("a:1, PLAINTEXT://b:2,[::1]:3,c,[::1]") == [
        ("a", 1),
        ("b", 2),
        ("::1", 3),
        ("c", 9092),
        ("::1", 9092),
    ]


@pytest.mark.parametrize("servers", ["a:x", ":9092", "a:0", "a:70000"])
def test_an_address_without_a_port_number_is_wrong_usage(servers):
    with pytest.raises(UsageError, match="host:port"):
        addresses(servers)


def test_a_client_is_quiet_and_takes_what_the_command_line_says(listener):
    args = arguments(listener, ("client.id", "mine"))
    client = connect(FakeClient, args, "tool", {"acks": "all"})
    assert client.settings["bootstrap.servers"] == listener
    assert client.settings["log_level"] == 0
    assert client.settings["client.id"] == "mine"
    assert client.settings["acks"] == "all"
    assert client.asked == 1


def test_one_address_that_answers_is_enough(listener, deaf):
    assert connect(FakeClient, arguments(f"{deaf},{listener}"), "tool").asked == 1


def test_addresses_that_refuse_are_named(deaf):
    with pytest.raises(UserError) as refused:
        connect(FakeClient, arguments(deaf), "tool")
    assert str(refused.value) == f"cannot connect to {deaf} (Connection refused)"


def test_no_address_at_all_is_wrong_usage():
    with pytest.raises(UsageError, match="host:port"):
        connect(FakeClient, arguments(","), "tool")


@pytest.mark.slow
def test_a_listener_that_is_no_broker_is_named(listener):
    silent = KafkaError(KafkaError._TRANSPORT, "Failed to get metadata: Local: Broker down")
    with pytest.raises(UserError, match=f"no Kafka broker answered at {listener} within 5 s"):
        connect(lambda settings: FakeClient(settings, silent), arguments(listener), "tool")


def test_a_setting_that_the_client_refuses_is_wrong_usage(listener):
    def refuse(settings: dict[str, object]) -> FakeClient:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "No such property"))

    with pytest.raises(UsageError, match="No such property"):
        connect(refuse, arguments(listener), "tool")


def test_reasons_do_not_say_which_library_noticed():
    reason = "Unable to produce message: Broker: Message size too large"
    assert explained(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, reason)) == "Message size too large"


@pytest.mark.parametrize("text", ["", "ConsumerGroupDescribe: "])
def test_a_reason_without_words_has_a_name(text):
    error = KafkaError(KafkaError.INVALID_GROUP_ID, text)
    assert explained(error) == f"{text}INVALID_GROUP_ID"


def test_a_person_hears_when_no_broker_is_left(capsys):
    kafka_connection.warn_of_error(KafkaError(KafkaError._TRANSPORT))
    assert capsys.readouterr().err == ""
    kafka_connection.warn_of_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert capsys.readouterr().err == "warning: no broker answers; still trying\n"


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "secret",
}


def of_secure_cluster(data_dir: Path, *properties: tuple[str, str]) -> argparse.Namespace:
    """The arguments of a command for a data directory that has files for clients."""
    clients = data_dir / "clients"
    clients.mkdir()
    lines = [f"{key}={value}\n" for key, value in LOGIN.items()]
    (clients / "librdkafka.properties").write_text("".join(lines))
    return argparse.Namespace(
        bootstrap_server=None, command_properties=list(properties), data_dir=data_dir
    )


def test_a_secure_cluster_is_reached_by_the_file_in_its_data_directory(tmp_path):
    assert security_of(of_secure_cluster(tmp_path)).username == "alice"


def test_another_login_takes_the_place_of_the_usual_one(tmp_path):
    own = [("sasl.username", "bob"), ("sasl.password", "p"), ("linger.ms", "5")]
    args = of_secure_cluster(tmp_path, *own)
    assert client_properties(args) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "p",
        "linger.ms": "5",
    }


def test_the_login_of_the_data_directory_is_for_its_own_cluster(tmp_path):
    args = of_secure_cluster(tmp_path)
    args.bootstrap_server = "elsewhere:9092"
    assert not security_of(args).protocol.has_sasl


def test_properties_without_effect_are_warned_about_once(capsys):
    args = arguments("127.0.0.1:1", ("linger.ms", "5"), ("client.id", "c"))
    args.has_own_client = True
    for _ in range(2):
        assert servers_of(args).addresses == [("127.0.0.1", 1)]
    assert capsys.readouterr().err == "warning: without effect here: linger.ms\n"
