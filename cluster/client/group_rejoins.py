"""When a member of a consumer group that uses librdkafka has to join its group again by itself.

librdkafka up to 2.16 asks once for the committed offsets of an assignment. If the coordinator has
just moved, the old one refuses as Kafka's does, and librdkafka reports the error, looks for the new
coordinator, sends its heartbeats there, and never fetches a record of the assignment
(https://github.com/confluentinc/librdkafka/issues/5586).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError


def needs_rejoin(error: "KafkaError") -> bool:
    """Whether an error that a member has polled leaves it without records."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    )


def rejoin(client: "Consumer", subscribe: Callable[[], object]) -> None:
    """Give up the assignment and ask for another, with either protocol of groups."""
    client.unsubscribe()
    subscribe()
