"""The simulation finds mistakes in replication by local connections: each is planted, and found."""

import inspect
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.brokers.replication.follower_fetcher import FollowerFetcher
from cluster.brokers.replication.leader_fetches import LeaderFetches
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import RandomHistory

pytestmark = [pytest.mark.simulation, pytest.mark.no_cover]

FIRST_SEED = 30
SEEDS_MAX = 20
"""Histories until a mistake must be found; the first five were enough for each."""


def plant(
    monkeypatch: pytest.MonkeyPatch, owner: type | ModuleType, name: str, sound: str, bad: str
) -> None:
    """Replace an expression of a method, or of a module's function, by another."""
    method = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(method))
    assert source.count(sound) == 1, f"{method.__qualname__} does not contain {sound!r} once"
    made: dict[str, Any] = {}
    exec(source.replace(sound, bad), method.__globals__, made)
    monkeypatch.setattr(owner, name, made[name])


FAULTS = {
    "the file that a position belongs to is not checked": (
        LeaderFetches,
        "_answer_compactly",
        "found is None or found.file is not followed.file",
        "found is None",
    ),
    "a position is acknowledged before it is appended": (
        FollowerFetcher,
        "_send_compact",
        "log.log_end_offset,",
        "log.log_end_offset + (self._random.random() < 0.1),",
    ),
    "an answer that is lost with its connection is waited for": (
        FollowerFetcher,
        "on_tick",
        "now_ms - self._asked_at_ms > overdue_ms",
        "False",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, *FAULTS[name])
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_MAX):
        cluster = SimulatedCluster(
            seed, tmp_path / str(seed), min_insync_replicas=1, by_file=True, is_local=True
        )
        try:
            with cluster:
                RandomHistory(cluster).run()
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} histories did not show that {name}")
