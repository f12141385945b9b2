"""Random histories of transactions, each from a seed (`tests/simulation/test_random_faults.py`)."""

from pathlib import Path

import pytest

from tests.simulation.test_random_faults import run, seeds
from tests.simulation.transactions.exhaustion import ExhaustedEpochs
from tests.simulation.transactions.group_copying import GROUPED, GroupedCopiers
from tests.simulation.transactions.histories import SETTINGS, TransactionHistory
from tests.simulation.transactions.power_losses import TransactionPowerLosses

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]


@pytest.mark.parametrize("seed", seeds(8))
def test_transactions_are_atomic_whatever_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, TransactionHistory, minimum=2, overrides=SETTINGS)


@pytest.mark.parametrize("seed", seeds(4))
def test_copiers_of_one_group_have_each_effect_once(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, GroupedCopiers, minimum=2, overrides=GROUPED)


@pytest.mark.parametrize("seed", seeds(3))
def test_transactions_are_atomic_when_producer_ids_run_out_of_epochs(
    seed: int, tmp_path: Path
) -> None:
    run(seed, tmp_path, ExhaustedEpochs, minimum=2, overrides=SETTINGS)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_are_atomic_when_one_machine_loses_power(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, TransactionPowerLosses, minimum=2, overrides=SETTINGS)
