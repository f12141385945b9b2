"""The state of a broker, with Kafka's numbers."""

from enum import IntEnum


class BrokerState(IntEnum):
    """Kafka's `org.apache.kafka.metadata.BrokerState`."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
