"""What the controller tells a broker: LeaderAndIsr, StopReplica and UpdateMetadata in one message.

Kafka's ZooKeeper-mode controller sends three kinds of request that a broker must not see out of
order; here a broker receives the changed part of the cluster's state and derives its own roles from
it. Encoded as msgpack.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.coordinator.controller.message_fields import mapped, number, text
from cluster.model.cluster import BrokerRegistration, Endpoint, PartitionState, TopicState
from cluster.model.errors import PeerError
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """Changes of the cluster's state, or all of it when `is_full`.

    `broker_epoch` is the receiver's: an update for its former life is refused (KIP-380).
    `topics` hold only the partitions that changed, unless `is_full`. A large update goes in parts.
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    is_full: bool
    brokers: tuple[BrokerRegistration, ...]
    topics: tuple[TopicState, ...]
    deleted: tuple[str, ...]
    part: int = 0
    is_last: bool = True


def encode_update(update: ClusterUpdate) -> dict[str, Any]:
    """A map that msgpack can pack."""
    return {
        "controller": update.controller,
        "controller_epoch": update.controller_epoch,
        "broker_epoch": update.broker_epoch,
        "full": update.is_full,
        "brokers": [
            (
                broker.id,
                broker.epoch,
                [tuple(endpoint) for endpoint in broker.endpoints],
                broker.rack,
                broker.control_endpoint,
                broker.replication_endpoint,
                broker.machine,
            )
            for broker in update.brokers
        ],
        "topics": [
            (
                topic.name,
                topic.topic_id.bytes,
                dict(topic.configs),
                [
                    (number, p.replicas, p.isr, p.leader, p.leader_epoch, p.partition_epoch)
                    for number, p in topic.partitions.items()
                ],
            )
            for topic in update.topics
        ],
        "deleted": list(update.deleted),
        "part": update.part,
        "last": update.is_last,
    }


def decode_update(message: Mapping[str, Any]) -> ClusterUpdate:
    """The update of a received map. Raises PeerError when it is not one."""
    try:
        return ClusterUpdate(
            BrokerId(number(message["controller"])),
            ControllerEpoch(number(message["controller_epoch"])),
            BrokerEpoch(number(message["broker_epoch"])),
            bool(message["full"]),
            tuple(_broker(fields) for fields in message["brokers"]),
            tuple(_topic(fields) for fields in message["topics"]),
            tuple(map(text, message["deleted"])),
            number(message["part"]),
            bool(message["last"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PeerError(f"malformed cluster update: {error!r}") from error


def _broker(fields: Any) -> BrokerRegistration:
    broker_id, epoch, endpoints, rack, control, replication, machine = fields
    return BrokerRegistration(
        BrokerId(number(broker_id)),
        BrokerEpoch(number(epoch)),
        tuple(
            Endpoint(text(listener), text(protocol), text(host), number(port))
            for listener, protocol, host, port in endpoints
        ),
        None if rack is None else text(rack),
        text(control),
        text(replication),
        text(machine),
    )


def _topic(fields: Any) -> TopicState:
    name, topic_id, configs, partitions = fields
    if not isinstance(topic_id, bytes):
        raise PeerError(f"{topic_id!r:.80} is not a topic id")
    return TopicState(
        text(name),
        uuid.UUID(bytes=topic_id),
        {text(key): text(value) for key, value in mapped(configs).items()},
        {
            number(index): PartitionState(
                tuple(BrokerId(number(one)) for one in replicas),
                tuple(BrokerId(number(one)) for one in isr),
                BrokerId(number(leader)),
                LeaderEpoch(number(leader_epoch)),
                PartitionEpoch(number(partition_epoch)),
            )
            for index, replicas, isr, leader, leader_epoch, partition_epoch in partitions
        },
    )
