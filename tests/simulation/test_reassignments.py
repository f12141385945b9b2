"""Partitions move to other replicas while everything fails, each history from a seed.

`SIM_SEEDS=17` replays one seed, `SIM_SEEDS=0-1000` runs as many as there is patience for.
"""

import os
from pathlib import Path

import pytest

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import LostDisks
from tests.simulation.reassigning import (
    Reassignments,
    ReassignmentsWithLostDisks,
    ReassignmentsWithPowerLosses,
)
from tests.simulation.test_random_faults import seeds

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

HISTORIES = (Reassignments, ReassignmentsWithPowerLosses, ReassignmentsWithLostDisks)


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
    )


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("seed", seeds(16))
def test_partitions_end_where_they_were_moved_to_and_lose_nothing(
    seed: int, history: type[Reassignments], tmp_path: Path
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
    assert of_seed.completed_count
