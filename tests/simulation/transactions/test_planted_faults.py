"""The simulation finds mistakes in transactions: each is planted, and found."""

from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.coordinator.groups.offsets.commits import OffsetCommits
from cluster.coordinator.transactions.loading import Loading
from cluster.coordinator.transactions.machine import TransactionMachine
from cluster.coordinator.transactions.storing import Storing
from cluster.log.aborted_transactions import AbortedTransactions
from cluster.log.log_transactions import LogTransactions
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.test_planted_faults import plant
from tests.simulation.transactions.histories import SETTINGS, TransactionHistory

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

SEEDS_MAX = 30
STEPS = 100


class Fault(NamedTuple):
    """An expression of a function, and what takes its place."""

    owner: type
    name: str
    sound: str
    bad: str


FAULTS = {
    "markers are not sent again": Fault(
        MarkerSender,
        "_on_codes",
        "self._held.on_failed(job, partition, self._loop.now_ms)",
        "None",
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
        TransactionMachine, "_bump", "        epoch + 1,\n", "        max(epoch, 0),\n"
    ),
    "offsets are visible before the commit": Fault(
        OffsetCommits,
        "note_transactional",
        "group.offsets.set_transactional(producer_id, *entry)",
        "group.offsets.set(*entry)",
    ),
    "the next coordinator forgets the outcome": Fault(
        Loading, "resuming_steps", "self._storing.send_markers(transaction, now())", "None"
    ),
    "every transaction is committed": Fault(
        Storing, "send_markers", "stored.state is TransactionState.PREPARE_COMMIT", "True"
    ),
    "aborted transactions are not listed": Fault(
        AbortedTransactions, "overlapping", "return found", "return []"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, *FAULTS[name])
    for seed in range(SEEDS_MAX):
        cluster = SimulatedCluster(
            seed, tmp_path / str(seed), min_insync_replicas=2, overrides=SETTINGS
        )
        try:
            with cluster:
                TransactionHistory(cluster).run(STEPS)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} histories did not show that {name}")
