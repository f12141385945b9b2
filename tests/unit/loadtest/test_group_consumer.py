"""The member of a group in a load test, against a client that does what a test says."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

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
    """Assigns nothing at each subscription, and reports one error after the first."""

    def __init__(self, code: int) -> None:
        self.calls: list[str] = []
        self._code = code
        self._on_assign: Callable[..., None] | None = None

    def list_topics(self, topic: str, *, timeout: float) -> None:
        pass

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.calls.append("subscribe")
        self._on_assign = on_assign

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")

    def consume(self, count: int, timeout: float) -> list[FailedMessage]:
        if self._on_assign is None:
            return []
        self._on_assign(self, [])
        self._on_assign = None
        return [FailedMessage(self._code)] if self.calls == ["subscribe"] else []

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


def test_member_joins_again_when_librdkafka_got_no_offsets(monkeypatch):
    calls, errors = calls_after(KafkaError.NOT_COORDINATOR, monkeypatch)
    assert calls == ["subscribe", "unsubscribe", "subscribe", "close"]
    assert len(errors) == 1


def test_member_stays_after_another_error(monkeypatch):
    calls, errors = calls_after(KafkaError._TRANSPORT, monkeypatch)
    assert calls == ["subscribe", "close"]
    assert len(errors) == 1
