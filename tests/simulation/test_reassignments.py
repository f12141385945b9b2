"""Partitions move to other replicas while everything fails, each history from a seed.

`SIM_SEEDS=17` replays one seed, `SIM_SEEDS=0-1000` runs as many as there is patience for.
"""

import os
from pathlib import Path

import pytest

from cluster.model.ids import TopicPartition
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import LostDisks
from tests.simulation.reassigning import (
    ReassignmentChecks,
    Reassignments,
    ReassignmentsWithGroups,
    ReassignmentsWithLostDisks,
    ReassignmentsWithPowerLosses,
    ReassignmentsWithTransactions,
    move,
)
from tests.simulation.test_random_faults import seeds
from tests.simulation.transactions.histories import SETTINGS, TransactionHistory

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

SEEDS: dict[type[Reassignments], int] = {
    Reassignments: 4,
    ReassignmentsWithPowerLosses: 3,
    ReassignmentsWithLostDisks: 4,
    ReassignmentsWithGroups: 3,
    ReassignmentsWithTransactions: 2,
}
"""How many seeds of each kind of history run."""


def a_cluster(seed: int, directory: Path, history: type[Reassignments]) -> SimulatedCluster:
    """The seed decides about the shape of the cluster too."""
    return SimulatedCluster(
        seed,
        directory,
        broker_count=5 if seed % 4 == 3 else 4,
        min_insync_replicas=1 if history is Reassignments and seed % 3 == 0 else 2,
        by_file=seed % 2 == 0,
        is_local=seed % 4 == 0,
        directory_count=1 + (issubclass(history, LostDisks) and seed % 2),
        overrides=SETTINGS if issubclass(history, TransactionHistory) else None,
    )


@pytest.mark.parametrize(
    ("history", "seed"),
    [(history, seed) for history, count in SEEDS.items() for seed in seeds(count)],
)
def test_partitions_end_where_they_were_moved_to_and_lose_nothing(
    history: type[Reassignments], seed: int, tmp_path: Path
) -> None:
    cluster = a_cluster(seed, tmp_path, history)
    try:
        with cluster:
            of_seed = history(cluster)
            of_seed.run()
    except BaseException as error:
        test = os.environ["PYTEST_CURRENT_TEST"].split("[")[0].split(" ")[0]
        cluster.explain(error, f"SIM_SEEDS={seed} bin/test {test}")
        raise
    assert of_seed.was_answered
    assert of_seed.checks.change_count


def test_a_replica_that_comes_back_joins_only_after_it_knows_that_it_had_to_go(
    tmp_path: Path,
) -> None:
    """It hears late that it is dropped, and deletes its log then."""
    with SimulatedCluster(1, tmp_path, broker_count=4, min_insync_replicas=1) as cluster:
        cluster.world.run_until(lambda: cluster.controller is not None, 5_000)
        controller = cluster.controller
        assert controller is not None
        replicas = tuple(number for number in cluster.brokers if number != controller.id)
        cluster.create_topic("t", -1, -1, assignment={0: replicas})
        cluster.world.after_each = ReassignmentChecks(cluster).after_event
        partition = TopicPartition("t", 0)
        cluster.world.run_until(cluster.checks.everything_is_in_sync, 5_000)
        cluster.produce(partition)
        cluster.world.run_for(500)

        late = next(each for each in replicas if each != cluster.leader(partition))
        cluster.separate(controller.id, late)
        move(controller, partition, tuple(each for each in replicas if each != late))
        move(controller, partition, replicas)
        cluster.world.run_for(800)
        assert cluster.assignment[partition] == replicas
        cluster.join(controller.id, late, breaks=False)
        cluster.settle()
