"""The simulation finds mistakes in reassignments: each is planted, and found."""

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.coordinator.controller import reassignments
from cluster.coordinator.controller.reassignments import Reassigning
from tests.simulation.reassigning import Reassignments
from tests.simulation.test_planted_faults import plant
from tests.simulation.test_reassignments import a_cluster

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

SEEDS_MAX = 30


class Fault(NamedTuple):
    """An expression of a function, and what takes its place."""

    owner: type | ModuleType
    name: str
    sound: str
    bad: str
    first_seed: int = 0
    """It finds the fault soon; later ones follow, in case that changes."""


FAULTS = {
    "a leader changes within its epoch": Fault(
        reassignments,
        "_one_write",
        "LeaderEpoch(old.leader_epoch + has_moved)",
        "LeaderEpoch(old.leader_epoch + (has_moved and new.leader < 0))",
    ),
    "the epoch stays when a replica is dropped": Fault(
        reassignments,
        "_one_write",
        "new.leader != old.leader or new.leader_epoch != old.leader_epoch",
        "new.leader != old.leader",
        first_seed=36,
    ),
    "a reassignment is forgotten when it could complete": Fault(
        Reassigning,
        "on_changed",
        "set(state.isr) >= set(state.replicas) - set(state.removing)",
        "False",
    ),
    "a replica goes when the reassignment begins": Fault(
        ReplicaRoles,
        "apply_state",
        "self._local_id not in state.replicas:",
        "self._local_id not in state.replicas or self._local_id in state.removing:",
    ),
    "the replicas of the target are not waited for": Fault(
        reassignments,
        "complete",
        "not set(target) <= set(state.isr)",
        "False",
    ),
    "a cancellation leaves what was added": Fault(
        reassignments,
        "cancel",
        "state.original_replicas, usable",
        "state.replicas, usable",
        first_seed=4,
    ),
    "the leader does not learn of added replicas": Fault(
        LeaderReplica,
        "on_state_committed",
        "for broker in state.replicas",
        "for broker in (self._local_id, *followers)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    plant(monkeypatch, fault.owner, fault.name, fault.sound, fault.bad)
    for seed in range(fault.first_seed, fault.first_seed + SEEDS_MAX):
        cluster = a_cluster(seed, tmp_path / str(seed), Reassignments)
        try:
            with cluster:
                Reassignments(cluster).run()
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} histories did not show that {name}")
