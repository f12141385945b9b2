"""Kafka 4.1 and our broker answer the same requests of fetch sessions equally."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from cluster.protocol.api import ApiKey
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import require_kafka
from tests.compat.kraft_process import KraftProcess
from tests.support.cluster_states import a_partition, a_topic
from tests.support.fetch_session_story import Place, story
from tests.support.handler_requests import codes_of, fetched_in
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import WireClient, fetch_from, metadata_request, request, wanted
from tests.support.topics import create_topics_request
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]


class OurPlace:
    """A broker of ours without sockets; the controller is the test."""

    def __init__(self, stage: HandlerStage) -> None:
        self._stage = stage
        self._client = stage.connect()
        self._created = 0

    def call(self, message: Any) -> Any:
        return self._client.call(message)

    def create(self, topic: str, partitions: int) -> uuid.UUID:
        self._created += 1
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, f"{topic} {self._created}")
        state = a_topic(topic, *[a_partition([BROKER])] * partitions)
        self._stage.update(replace(state, topic_id=topic_id))
        return topic_id

    def delete(self, topic: str) -> None:
        self._stage.update(deleted=(topic,))


class KafkaPlace:
    """A broker of Kafka."""

    def __init__(self, kafka: KraftProcess) -> None:
        self._client = WireClient(kafka.address)

    def call(self, message: Any) -> Any:
        return self._client.call(message)

    def create(self, topic: str, partitions: int) -> uuid.UUID:
        asked = create_topics_request(topic, partitions=partitions, replication_factor=1)
        (created,) = self.call(asked).topics
        assert created.error_code == 0, created
        found: uuid.UUID = wait_until(partial(self._led, topic, partitions), topic)
        return found

    def _led(self, topic: str, partitions: int) -> uuid.UUID | None:
        (found,) = self.call(metadata_request(topic)).topics
        if found.error_code or len(found.partitions) < partitions:
            return None
        every = [wanted(number) for number in range(partitions)]
        if any(codes_of(fetched_in(self.call(fetch_from((topic, every)))))):
            return None
        topic_id: uuid.UUID = found.topic_id
        return topic_id

    def delete(self, topic: str) -> None:
        asked = request(ApiKey.DELETE_TOPICS, 4, topic_names=[topic], timeout=10_000)
        (deleted,) = self.call(asked).responses
        assert deleted.error_code == 0, deleted
        wait_until(lambda: self._led(topic, 1) is None, f"the end of {topic}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def told(place: Place) -> Iterator[str]:
    for name, outcome in story(place):
        yield f"{name}: {outcome}"


def test_a_session_is_answered_as_by_kafka(tmp_path: Path) -> None:
    require_kafka(NEWEST)
    with HandlerStage(tmp_path / "ours") as stage:
        ours = list(told(OurPlace(stage)))
    with KraftProcess(tmp_path / "kafka") as kafka, KafkaPlace(kafka) as place:
        theirs = list(told(place))
    assert ours == theirs
