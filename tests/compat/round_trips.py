"""Records sent and read back by Python clients and by kcat, through a listener of any kind."""

import asyncio
import ssl
import subprocess
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaTokenProvider

from tests.compat.debian_packages import kcat

_DEADLINE_S: Final = 60


class Login(NamedTuple):
    """How a client is to connect; files are PEM, empty where there is none."""

    bootstrap: str
    protocol: str
    ca_file: str = ""
    certificate_file: str = ""
    """The client's certificate and its private key."""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    token_ends_at_s: float = 0

    def librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka, but for a token."""
        told = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "ssl.ca.location": self.ca_file,
            "ssl.certificate.location": self.certificate_file,
            "ssl.key.location": self.certificate_file,
            "sasl.mechanism": self.mechanism,
        }
        if self.mechanism and not self.token:
            told |= {"sasl.username": self.user, "sasl.password": self.password}
        return {key: value for key, value in told.items() if value}

    def python(self, provider: type) -> dict[str, Any]:
        """Settings of kafka-python and aiokafka; `provider` makes what hands out a token."""
        told: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
        }
        if self.ca_file:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file)
            told["ssl_context"] = context
        if self.token:
            told["sasl_oauth_token_provider"] = provider(self.token)
        elif self.mechanism:
            told |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return told | ({"sasl_mechanism": self.mechanism} if self.mechanism else {})


class _Token(KafkaTokenProvider):
    def __init__(self, token: str, **_config: Any) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class _AsyncToken(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


RoundTrip = Callable[[Login, str, list[bytes]], list[bytes]]
"""Sends values to partition 0 of a topic, and returns what is read there then."""


def through_confluent_kafka(login: Login, topic: str, values: list[bytes]) -> list[bytes]:
    settings = login.librdkafka()
    if login.token:
        settings["oauth_cb"] = lambda _: (login.token, login.token_ends_at_s)
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(_DEADLINE_S) == 0
    consumer = Consumer(settings | {"group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = consumer.consume(len(values), _DEADLINE_S)
        return [value for each in read if (value := each.value()) is not None]
    finally:
        consumer.close()


def through_kafka_python(login: Login, topic: str, values: list[bytes]) -> list[bytes]:
    settings = login.python(_Token)
    producer = KafkaProducer(**settings)
    for value in values:
        producer.send(topic, value, partition=0).get(_DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(**settings, consumer_timeout_ms=1_000 * _DEADLINE_S)
    place = KafkaTopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    read = [next(consumer).value for _ in values]
    consumer.close()
    return read


def through_aiokafka(login: Login, topic: str, values: list[bytes]) -> list[bytes]:

    async def run() -> list[bytes]:
        settings = login.python(_AsyncToken)
        async with AIOKafkaProducer(**settings) as producer:
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
        async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in values]

    return asyncio.run(asyncio.wait_for(run(), _DEADLINE_S))


def through_kcat(login: Login, topic: str, values: list[bytes]) -> list[bytes]:
    """Send values, which must hold no line ends. Raises CalledProcessError."""
    program = kcat()
    options = [f"-X{key}={value}" for key, value in login.librdkafka().items()]

    def run(*words: str, records: bytes = b"") -> bytes:
        return subprocess.run(
            [program.path, *words, "-t", topic, "-p", "0", *options],
            env=program.environment,
            input=records,
            capture_output=True,
            timeout=_DEADLINE_S,
            check=True,
        ).stdout

    run("-P", records=b"\n".join(values) + b"\n")
    return run("-C", "-o", "beginning", "-e", "-q").splitlines()


ROUND_TRIPS: Final[dict[str, RoundTrip]] = {
    "confluent-kafka": through_confluent_kafka,
    "kafka-python": through_kafka_python,
    "aiokafka": through_aiokafka,
    "kcat": through_kcat,
}
