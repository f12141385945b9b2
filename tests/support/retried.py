"""Questions of librdkafka that it does not repeat itself while leaders and coordinators change."""

from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tests.support.waiting import wait_until

T = TypeVar("T")

_CHANGING: Final = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}


def retried(ask: Callable[[], T], what: str) -> T:
    """The answer of `ask`, asked again while the broker is not the one to ask any more or not yet.

    Raises KafkaException for every other error.
    """

    def answer() -> tuple[T] | None:
        try:
            return (ask(),)
        except KafkaException as problem:
            if problem.args[0].code() not in _CHANGING:
                raise
            return None

    return wait_until(answer, what)[0]
