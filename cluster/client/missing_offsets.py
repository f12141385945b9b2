"""Members of consumer groups that librdkafka leaves without the offsets of their partitions.

librdkafka up to 2.16 asks once for the committed offsets of an assignment. If the coordinator has
just moved, the old one refuses as Kafka's does, and librdkafka reports the error, looks for the new
coordinator, sends its heartbeats there, and never fetches a record of the assignment
(https://github.com/confluentinc/librdkafka/issues/5586).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError


def lacks_offsets(error: "KafkaError") -> bool:
    """Whether a member that has polled this error gets no records of its assignment."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)


def assign_again(client: "Consumer") -> None:
    """Have a member ask for offsets again; partitions that it reads go on where they are.

    To leave the group and join again would be no better: the former coordinator gets the
    LeaveGroup, and the new one waits for the member that left until its session ends.
    """
    from confluent_kafka import KafkaException

    partitions = client.position(client.assignment())
    if not partitions:  # a rebalance has taken them away, and gives others
        return
    try:
        client.assign(partitions)
    except KafkaException:  # cooperative assignors and the newer protocol change it by parts
        client.incremental_unassign(partitions)
        client.incremental_assign(partitions)
