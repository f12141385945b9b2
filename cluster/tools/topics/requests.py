"""Describes topics, from what brokers say of their partitions and settings. Prints nothing."""

import base64
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from cluster.client.admin import Admin
from cluster.client.config_requests import topic_configs
from cluster.client.reassignment_requests import OngoingReassignment, list_reassignments
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.config.snapshot import Source
from cluster.model.errors import Refused, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import DescribeConfigsResourceResult
from cluster.tools.topics.description import PartitionDescription, TopicDescription

_NO_ID: Final = UUID(int=0)


def describe_topics(admin: Admin, names: Sequence[str]) -> list[TopicDescription]:
    """Descriptions in the order of the names, without topics that have been deleted meanwhile.

    Raises UserError.
    """
    all_facts = admin.facts()
    facts = {topic.name: topic for topic in all_facts.topics}
    present = [name for name in names if name in facts]
    configs = admin.any_broker(lambda client: topic_configs(client, present))
    ongoing = _ongoing(admin, all_facts.controller)
    return [
        TopicDescription(
            name=name,
            id=_url_safe(facts[name].id or _NO_ID),
            configs={
                entry.name: entry.value
                for entry in configs.get(name, ())
                if entry.config_source != Source.DEFAULT
            },
            partitions=tuple(
                PartitionDescription(
                    each.number,
                    each.leader,
                    each.replicas,
                    each.isr,
                    ongoing.get(Place(name, each.number)),
                )
                for each in facts[name].partitions
            ),
            min_isr=_min_isr(configs.get(name, ())),
        )
        for name in present
    ]


def _ongoing(admin: Admin, controller: int | None) -> dict[Place, OngoingReassignment]:
    """The reassignments that are in progress; none if the controller does not tell, as in Kafka's
    tool.
    """

    def ask(client: SocketClient) -> dict[Place, OngoingReassignment]:
        is_served = client.serves(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        return list_reassignments(client) if is_served else {}

    if controller is None:
        return {}
    try:
        return admin.broker(controller, ask)
    except (Refused, UserError):
        return {}


def _url_safe(topic_id: UUID) -> str:
    """Kafka's spelling of an id."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _min_isr(entries: Iterable[DescribeConfigsResourceResult]) -> int:
    """The value of `min.insync.replicas` among a topic's settings; Kafka's default without it."""
    found = {entry.name: entry.value for entry in entries}
    return int(found.get("min.insync.replicas") or 1)
