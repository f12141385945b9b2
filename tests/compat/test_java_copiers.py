"""Kafka's own client consumes, transforms and produces, and each input has its effect once.

It uses transactions of version 2 (KIP-890), where leaders add partitions and each end bumps the
epoch; `tests/integration/test_exactly_once.py` has librdkafka, which does not.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import compiled, java_command
from tests.support.copier_scenes import SETTINGS, copying
from tests.support.running_cluster import Cluster

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]


def test_a_copier_has_each_effect_once_whichever_broker_is_killed(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    command = [*java_command(compiled("Copier", tmp_path, NEWEST), NEWEST), "Copier"]
    with copying(new_cluster(overrides=SETTINGS).start(), program=command) as scene:
        for role in scene.leaders:
            scene.kill(role)
        scene.copiers.all[0].kill_and_start()
        scene.copiers.wait_for_more()
