"""The simulation finds mistakes in transactions: each is planted, and found."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from cluster.brokers.replication import lost_logs
from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.coordinator.groups.offsets import commits
from cluster.coordinator.groups.offsets.commits import OffsetCommits
from cluster.coordinator.transactions import records
from cluster.coordinator.transactions.loading import Loading
from cluster.coordinator.transactions.machine import TransactionMachine
from cluster.coordinator.transactions.storing import Storing
from cluster.log.aborted_transactions import AbortedTransactions
from cluster.log.log_transactions import LogTransactions
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.test_planted_faults import plant
from tests.simulation.transactions.exhaustion import ExhaustedEpochs
from tests.simulation.transactions.group_copying import GROUPED, GroupedCopiers
from tests.simulation.transactions.histories import SETTINGS, TransactionHistory
from tests.simulation.transactions.power_losses import TransactionPowerLosses

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

SEEDS_MAX = 30
STEPS = 100
END_LIMIT_MS = 60_000
"""Twice as long as sound histories take for it."""


class Fault(NamedTuple):
    """An expression of a function, and what takes its place."""

    owner: type | ModuleType
    name: str
    sound: str
    bad: str
    first_seed: int = 0
    """It finds the fault soon; later ones follow, in case that changes."""
    history: type[TransactionHistory] = TransactionHistory
    settings: Mapping[str, str] = SETTINGS


FAULTS = {
    "markers are not sent again": Fault(
        MarkerSender,
        "_on_codes",
        "self._held.on_failed(job, partition, self._loop.now_ms)",
        "None",
        first_seed=4,
    ),
    "one partition gets the marker": Fault(
        Storing,
        "send_markers",
        "stored = transaction.stored\n",
        "stored = transaction.stored._replace("
        "partitions=frozenset(sorted(transaction.stored.partitions)[:1]))\n",
    ),
    "a marker that is not replicated decides": Fault(
        LogTransactions,
        "stable_offset",
        "if undecided and undecided[0][0] < stable:",
        "if False:",
    ),
    "the epoch is not bumped": Fault(
        TransactionMachine, "_bump", "        epoch + 1,\n", "        max(epoch, 0),\n", 7
    ),
    "offsets are visible before the commit": Fault(
        OffsetCommits,
        "note_transactional",
        "group.offsets.set_transactional(producer_id, *entry)",
        "group.offsets.set(*entry)",
        first_seed=1,
    ),
    "the next coordinator forgets the outcome": Fault(
        Loading, "resuming_steps", "self._storing.send_markers(transaction, now())", "None"
    ),
    "every transaction is committed": Fault(
        Storing, "send_markers", "stored.state is TransactionState.PREPARE_COMMIT", "True", 1
    ),
    "aborted transactions are not listed": Fault(
        AbortedTransactions, "overlapping", "return found", "return []", 1
    ),
    "an old generation commits": Fault(
        commits,
        "_check",
        "if not is_anonymous:",
        "if not is_anonymous and not is_transactional:",
        first_seed=4,
        history=GroupedCopiers,
        settings=GROUPED,
    ),
    "offsets of open transactions count as stable": Fault(
        commits,
        "_fetched",
        "require_stable and group.offsets.is_changing(key)",
        "False",
        first_seed=16,
        history=GroupedCopiers,
        settings=GROUPED,
    ),
    "the next producer id is forgotten": Fault(
        records,
        "_tags",
        "if stored.next_producer_id != NO_PRODUCER_ID:",
        "if False:",
        history=ExhaustedEpochs,
    ),
    "a crash of the machine is not noticed": Fault(
        lost_logs,
        "_why_doubtful",
        "if mark.boot_id != boot_id:",
        "if False:",
        history=TransactionPowerLosses,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    plant(monkeypatch, fault.owner, fault.name, fault.sound, fault.bad)
    for seed in range(fault.first_seed, fault.first_seed + SEEDS_MAX):
        cluster = SimulatedCluster(
            seed, tmp_path / str(seed), min_insync_replicas=2, overrides=fault.settings
        )
        try:
            with cluster:
                history = fault.history(cluster)
                history.end_limit_ms = END_LIMIT_MS
                history.run(STEPS)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} histories from seed {fault.first_seed} on did not show that {name}")
