"""The member of a group in a load test, against a client that does what a test says."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from cluster.loadtest import group_consumer_process
from cluster.loadtest.worker_orders import ConsumerOrder

ORDER = ConsumerOrder("c", "127.0.0.1:1", "t", run=1, start_offsets={}, group="g")


class FailedMessage:
    """A message that is an error."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def error(self) -> KafkaError:
        return self._error


class FakeClient:
    """Assigns one partition, and then reports an error."""

    def __init__(self, code: int) -> None:
        self.calls: list[str] = []
        self._messages = [FailedMessage(code)]
        self._on_assign: Any = None

    def list_topics(self, topic: str, *, timeout: float) -> None:
        pass

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.calls.append("subscribe")
        self._on_assign = on_assign

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return partitions

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append("assign")

    def consume(self, count: int, timeout: float) -> list[FailedMessage]:
        self._on_assign(self, self.assignment())
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        self.calls.append("close")


class FakePipe:
    """Tells the member to stop at once."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def tell(self, kind: str, **document: Any) -> None:
        self.told.append((kind, document))

    def commands(self) -> list[dict[str, Any]]:
        return [{"command": "stop"}]


def calls_after(code: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Any]:
    """What a member calls when it polls an error, and the errors that it reports."""
    client, pipe = FakeClient(code), FakePipe()
    monkeypatch.setattr(group_consumer_process, "Consumer", lambda _settings: client)
    group_consumer_process.consume_in_group(ORDER, pipe)  # type: ignore[arg-type]
    (errors,) = [document["errors"] for kind, document in pipe.told if kind == "interval"]
    return client.calls, errors


def test_member_asks_for_offsets_again_when_librdkafka_got_none(monkeypatch):
    calls, errors = calls_after(KafkaError.NOT_COORDINATOR, monkeypatch)
    assert calls == ["subscribe", "assign", "close"]
    assert len(errors) == 1


def test_member_keeps_its_assignment_after_another_error(monkeypatch):
    calls, errors = calls_after(KafkaError._TRANSPORT, monkeypatch)
    assert calls == ["subscribe", "close"]
    assert len(errors) == 1
