"""Random histories of transactions, each from a seed (`tests/simulation/test_random_faults.py`)."""

from pathlib import Path

import pytest

from tests.simulation.test_random_faults import run, seeds
from tests.simulation.transactions.histories import SETTINGS, TransactionHistory

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]


@pytest.mark.parametrize("seed", seeds(14))
def test_transactions_are_atomic_whatever_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, TransactionHistory, minimum=2, overrides=SETTINGS)
