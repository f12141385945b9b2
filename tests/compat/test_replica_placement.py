"""Kafka's placement of replicas and ours, given the same brokers, racks and start."""

import random

import pytest

from cluster.coordinator.controller.assignment import assign_replicas
from cluster.model.ids import BrokerId
from tests.compat.kafka_process import require_kafka, run_program

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]


def test_ours_gives_what_kafkas_admin_utils_gives() -> None:
    require_kafka()
    dice = random.Random(36)
    cases = []
    for number in range(600):
        ids = sorted(dice.sample(range(40), dice.randint(1, 9)))
        racks = ["a", "b", "c", "d"][: dice.randint(1, 4)]
        brokers = {BrokerId(each): dice.choice(racks) if number % 3 else None for each in ids}
        factor, start = dice.randint(1, len(ids)), dice.randrange(len(ids))
        cases.append((brokers, dice.randint(1, 25), factor, start, dice.randint(0, 12)))
    text = "".join(
        f"{count} {factor} {start} {first} "
        + " ".join(f"{broker}:{rack or '-'}" for broker, rack in brokers.items())
        + "\n"
        for brokers, count, factor, start, first in cases
    )
    lines = run_program("ReplicaAssignments", stdin=text).splitlines()
    for (brokers, count, factor, start, first), line in zip(cases, lines, strict=True):
        ours = assign_replicas(brokers, count, factor, dice, first, start)
        assert " ".join(",".join(map(str, each)) for each in ours.values()) == line
