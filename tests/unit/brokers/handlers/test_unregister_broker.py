"""UnregisterBroker: forgetting brokers that have stopped."""

import pytest

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import request

GONE = BrokerId(77)


def answered(stage: HandlerStage, broker: int) -> tuple[int, str]:
    client = stage.connect()
    client.send(request(ApiKey.UNREGISTER_BROKER, 0, broker_id=broker))
    stage.store.work()
    stage.turn()
    answer = client.receive()
    return answer.error_code, answer.error_message


@pytest.mark.parametrize("broker", [GONE, -1])
def test_a_broker_that_was_never_there_is_not_registered(stage: HandlerStage, broker: int) -> None:
    assert answered(stage, broker) == (
        ErrorCode.broker_id_not_registered,
        f"Broker ID {broker} is not currently registered",
    )


def test_a_broker_that_has_stopped_is_forgotten_once(stage: HandlerStage) -> None:
    stage.store.call(lambda store: store.brokers.write_log_directories(GONE, {"a": 1}))
    assert answered(stage, GONE) == (ErrorCode.none, "")
    assert stage.store.call(lambda store: store.brokers.log_directories(GONE)) is None
    assert answered(stage, GONE)[0] == ErrorCode.broker_id_not_registered


def test_a_live_broker_is_not_forgotten(stage: HandlerStage) -> None:
    stage.store.call(lambda store: store.brokers.register(a_broker(GONE), WallMs(0)))
    stage.store.call(lambda store: store.brokers.write_log_directories(GONE, {"a": 1}))
    assert answered(stage, GONE) == (
        ErrorCode.invalid_request,
        "Broker ID 77 is alive: stop it before",
    )
    assert stage.store.call(lambda store: store.brokers.log_directories(GONE)) == {"a": 1}


def test_a_broker_with_replicas_is_not_forgotten(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, GONE]), a_partition([BROKER])))
    stage.store.call(lambda store: store.brokers.write_log_directories(GONE, {"a": 1}))
    assert answered(stage, GONE) == (
        ErrorCode.invalid_request,
        "Broker ID 77 has replicas of 1 partitions: move them away first",
    )
