"""`partitions reassign --generate`: proposes replicas for topics, as Kafka places new topics."""

from collections.abc import Sequence
from random import Random

from cluster.client.admin import Admin
from cluster.client.topic_requests import ClusterFacts, Place
from cluster.coordinator.controller.assignment import assign_replicas
from cluster.model.errors import UserError
from cluster.model.ids import BrokerId
from cluster.model.printable import one_line
from cluster.tools.partitions.assignment_file import assignment_text, listed


def generate(
    admin: Admin, topics: Sequence[str], brokers: Sequence[int], *, is_rack_aware: bool
) -> None:
    """Print where the topics are, and where they could be. Raises UserError and Refused."""
    facts = admin.facts()
    current = _current(facts, topics)
    racks = _racks(facts, brokers, is_rack_aware=is_rack_aware)
    proposed: dict[Place, Sequence[int]] = {}
    for topic in topics:
        count = sum(place.topic == topic for place in current)
        factor = len(current[Place(topic, 0)])
        for number, replicas in assign_replicas(racks, count, factor, Random()).items():
            proposed[Place(topic, number)] = replicas
    print(f"Current partition replica assignment\n{assignment_text(current)}\n")
    print(f"Proposed partition reassignment configuration\n{assignment_text(proposed)}")


def _current(facts: ClusterFacts, topics: Sequence[str]) -> dict[Place, tuple[int, ...]]:
    known = {topic.name for topic in facts.topics}
    missing = [one_line(topic) for topic in topics if topic not in known]
    if missing:
        raise UserError(f"Topic {missing[0]} not found.")
    return {place: held for place, held in facts.replicas().items() if place.topic in topics}


def _racks(
    facts: ClusterFacts, brokers: Sequence[int], *, is_rack_aware: bool
) -> dict[BrokerId, str | None]:
    unknown = [broker for broker in brokers if broker not in facts.racks]
    if unknown:
        raise UserError(
            f"there is no live broker {listed(unknown)}; there are: {listed(sorted(facts.racks))}"
        )
    racks = {BrokerId(broker): facts.racks[broker] for broker in brokers}
    if not is_rack_aware:
        return dict.fromkeys(racks)
    if len({rack is None for rack in racks.values()}) > 1:
        raise UserError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to"
            " make replica assignment without rack information."
        )
    return racks
