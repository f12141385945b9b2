"""Size limits and accounting of requests that are held as Python objects."""

import pytest

from cluster.brokers.dispatch.pipeline import OTHER_MAX_BYTES, PARKED_FACTOR
from cluster.model.errors import ErrorCode
from tests.support.broker_probes import batch_of
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import (
    fetch_from,
    frame_of,
    metadata_request,
    produce_request,
    wanted,
)


@pytest.fixture
def led(stage: HandlerStage) -> HandlerStage:
    stage.update(a_topic("t", a_partition([BROKER])))
    return stage


def test_large_request_other_than_produce_is_refused(led: HandlerStage) -> None:
    connection = led.connect()
    large = bytes(batch_of(b"v" * 2 * OTHER_MAX_BYTES))
    answer = connection.call(produce_request("t", large, acks=1))
    ((partition,),) = (one.partition_responses for one in answer.responses)
    assert partition.error_code == ErrorCode.message_too_large

    connection.send(metadata_request(*["n" * 30_000] * (OTHER_MAX_BYTES // 30_000 + 1)))
    assert "only Produce may have more than 4194304" in (connection.closed_because or "")


@pytest.mark.parametrize("count", [1, 1_000])
def test_parked_request_is_counted_when_it_is_large(led: HandlerStage, count: int) -> None:
    connection = led.connect()
    request = fetch_from(("t", [wanted(0)] * count), max_wait_ms=1_000)
    connection.send(request)
    assert connection.is_waiting
    size_bytes = len(frame_of(request, 1)) - 4
    assert connection.held_bytes == (0 if count == 1 else PARKED_FACTOR * size_bytes)
