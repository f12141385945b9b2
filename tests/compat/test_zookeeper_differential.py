"""The built-in registry and ZooKeeper are asked the same and must answer the same, in all that a
client can see: error codes, zxids, Stats, events and their order, connections closed.

What they are known and meant to differ in stands at the head of `zookeeper_scenarios`.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.compat.zookeeper_scenarios import SCENARIOS, TICK_MS
from tests.compat.zookeeper_server import ZooKeeperProcess, require_zookeeper
from tests.compat.zookeeper_stage import Stage
from tests.integration.registry_process import RegistryProcess


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    directory = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeperProcess(directory, tick_time_ms=TICK_MS) as process:
        yield process


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    directory = tmp_path_factory.mktemp("registry") / "data"
    with RegistryProcess(directory, tick_time_ms=TICK_MS) as process:
        yield process


def transcript(port: int, scenario: Callable[[Stage], None]) -> list[str]:
    with Stage(port, scenario.__name__) as stage:
        scenario(stage)
    return stage.transcript


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_same_answers(
    zookeeper: ZooKeeperProcess, registry: RegistryProcess, scenario: Callable[[Stage], None]
) -> None:
    ours, theirs = transcript(registry.port, scenario), transcript(zookeeper.port, scenario)
    assert ours == theirs
    assert "Traceback" not in registry.log()
