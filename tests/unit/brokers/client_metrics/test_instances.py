"""Client instances: when they may ask and push, and when they are forgotten."""

from itertools import count
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.client_metrics import instances
from cluster.brokers.client_metrics.instances import ClientInstances, Counts, Push
from cluster.brokers.client_metrics.subscriptions import subscription_of
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused

CODES = ErrorCode
INTERVAL_MS = 1_000
MAX_BYTES = 100
FACTS = {"client_id": "c"}


class Stage:
    """The instances of one broker with a clock, and what was forgotten."""

    def __init__(self) -> None:
        self.now_ms = 50
        self.forgotten: list[UUID] = []
        self.counts = Counts()
        ids = (UUID(int=number) for number in count(98))
        self.instances = ClientInstances(lambda: next(ids), self.forgotten.append, self.counts)
        self.subscribe(INTERVAL_MS)

    def subscribe(self, interval_ms: int, metrics: str = "a") -> None:
        texts = {"metrics": metrics, "interval.ms": str(interval_ms)}
        self.instances.take({"one": subscription_of(texts)})

    def expire(self) -> None:
        self.instances.expire(MonotonicMs(self.now_ms))

    def get(self, client: UUID | None = None):
        return self.instances.on_get(client, FACTS, MonotonicMs(self.now_ms))

    def push(self, client: UUID | None, subscription_id: int, **other) -> ErrorCode:
        asked = {"is_terminating": False, "compression_type": 0, "size_bytes": 10, **other}
        try:
            self.instances.on_push(
                Push(client, subscription_id, **asked), FACTS, MonotonicMs(self.now_ms), MAX_BYTES
            )
        except Refused as refused:
            return refused.code
        return CODES.none


@pytest.fixture
def stage() -> Stage:
    return Stage()


def refusal(stage: Stage, client: UUID | None) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        stage.get(client)
    return refused.value.code


def test_a_client_gets_an_id_that_is_not_reserved(stage):
    client, wanted = stage.get()
    assert client == UUID(int=100)
    assert (wanted.metrics, wanted.interval_ms) == (("a",), INTERVAL_MS)
    assert stage.get()[0] == UUID(int=101)


def test_the_first_push_may_come_early_and_the_next_after_the_interval(stage):
    client, wanted = stage.get()
    stage.now_ms += 1
    assert stage.push(client, wanted.subscription_id) is CODES.none
    stage.now_ms += INTERVAL_MS - 1
    assert stage.push(client, wanted.subscription_id) is CODES.throttling_quota_exceeded
    stage.now_ms += 1
    assert stage.push(client, wanted.subscription_id) is CODES.none
    assert stage.counts.throttled == 1


def test_a_client_that_asks_before_its_push_is_due_is_throttled(stage):
    client, _ = stage.get()
    assert refusal(stage, client) is CODES.throttling_quota_exceeded
    stage.now_ms += INTERVAL_MS
    assert stage.get(client)[0] == client


def test_a_changed_subscription_is_told_at_the_next_push(stage):
    client, wanted = stage.get()
    stage.subscribe(INTERVAL_MS, "b")
    assert stage.push(client, wanted.subscription_id) is CODES.unknown_subscription_id
    assert stage.counts.unknown_subscriptions == 1
    client, changed = stage.get(client)  # at once
    assert changed.metrics == ("b",)
    assert refusal(stage, client) is CODES.throttling_quota_exceeded


def test_an_unknown_client_is_told_to_ask(stage):
    unknown = UUID(int=12345)
    assert stage.push(unknown, 7) is CODES.unknown_subscription_id
    assert stage.get(unknown)[0] == unknown


@pytest.mark.parametrize("client", [None, UUID(int=1), UUID(int=99)])
def test_a_push_without_a_proper_id_is_invalid(stage, client):
    assert stage.push(client, 0) is CODES.invalid_request
    assert len(stage.instances) == 0


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"compression_type": 5}, CODES.unsupported_compression_type),
        ({"compression_type": -1}, CODES.unsupported_compression_type),
        ({"size_bytes": MAX_BYTES + 1}, CODES.telemetry_too_large),
        ({"size_bytes": MAX_BYTES}, CODES.none),
    ],
)
def test_a_push_is_checked(stage, other, code):
    client, wanted = stage.get()
    assert stage.push(client, wanted.subscription_id, **other) is code


def test_the_last_push_of_a_client_may_come_early_and_no_other_follows(stage):
    client, wanted = stage.get()
    assert stage.push(client, wanted.subscription_id) is CODES.none
    last = stage.push(client, wanted.subscription_id, is_terminating=True)
    assert last is CODES.none
    stage.now_ms += INTERVAL_MS
    assert stage.push(client, wanted.subscription_id) is CODES.invalid_request


def test_silent_clients_are_forgotten(stage):
    client, wanted = stage.get()
    stage.now_ms += instances.EXPIRY_MS - 1
    stage.expire()
    assert stage.forgotten == []
    stage.push(client, wanted.subscription_id)
    stage.now_ms += instances.EXPIRY_MS
    stage.expire()
    assert stage.forgotten == [client]
    assert len(stage.instances) == 0


def test_a_long_interval_is_waited_for_three_times(stage):
    stage.subscribe(instances.EXPIRY_MS)
    stage.get()
    stage.now_ms += 3 * instances.EXPIRY_MS - 1
    stage.expire()
    assert stage.forgotten == []


def test_the_number_of_clients_is_bounded(stage, monkeypatch):
    monkeypatch.setattr(instances, "INSTANCES_MAX", 3)
    first, second = stage.get()[0], stage.get()[0]
    stage.get()
    stage.push(first, 0)  # heard again
    stage.get()
    assert stage.forgotten == [second]
    assert len(stage.instances) == 3


@given(st.lists(st.tuples(st.sampled_from("gp"), st.integers(0, 1_500)), max_size=40))
def test_pushes_are_admitted_once_per_interval_and_once_more_per_question(steps):
    stage = Stage()
    client, wanted = stage.get()
    began_ms = stage.now_ms
    questions, pushes = 1, 0
    for kind, wait_ms in steps:
        stage.now_ms += wait_ms
        if kind == "p":
            pushes += stage.push(client, wanted.subscription_id) is CODES.none
            continue
        try:
            stage.get(client)
        except Refused:
            continue
        questions += 1
    intervals = (stage.now_ms - began_ms) // INTERVAL_MS
    assert questions <= intervals + 1
    assert pushes <= intervals + 1 + questions
