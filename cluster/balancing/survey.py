"""Asks a cluster where its replicas are, and how large."""

from collections.abc import Mapping
from typing import NamedTuple

from cluster.balancing.replica_layout import Layout
from cluster.client.admin import Admin
from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.reassignment_requests import OngoingReassignment, list_reassignments
from cluster.client.topic_requests import Place
from cluster.model.errors import Refused, UserError
from cluster.model.ids import BrokerId, TopicPartition


class Survey(NamedTuple):
    """What a plan is made from."""

    layout: Layout
    """What the cluster will be like when the reassignments in progress are completed."""
    ongoing: Mapping[Place, OngoingReassignment]
    silent: tuple[BrokerId, ...]
    """Live brokers that did not tell the sizes of their replicas."""


def survey(admin: Admin) -> Survey:
    """Ask the controller, and each live broker. Raises Refused and UserError."""
    ongoing = admin.controller(list_reassignments)
    facts = admin.facts()
    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    fixed = set()
    for topic in facts.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.number)
            moving = ongoing.get(Place(*partition))
            target = each.replicas if moving is None else moving.target
            replicas[partition] = tuple(map(BrokerId, target))
            if each.leader is None:
                fixed.add(partition)
    sizes, silent = _sizes(admin, sorted(map(BrokerId, facts.brokers)))
    racks = {BrokerId(broker): rack for broker, rack in facts.racks.items()}
    return Survey(Layout(racks, replicas, sizes, frozenset(fixed)), ongoing, silent)


def _sizes(
    admin: Admin, brokers: list[BrokerId]
) -> tuple[dict[TopicPartition, int], tuple[BrokerId, ...]]:
    """The largest replica of each partition, and the brokers that did not tell."""
    sizes: dict[TopicPartition, int] = {}
    silent = []
    for broker in brokers:
        try:
            directories = admin.broker(broker, describe_log_dirs)
        except (Refused, UserError):
            silent.append(broker)
            continue
        for directory in directories:
            for each in directory.replicas:
                if not each.is_future:
                    partition = TopicPartition(each.topic, each.partition)
                    sizes[partition] = max(sizes.get(partition, 0), each.size_bytes)
    return sizes, tuple(silent)
