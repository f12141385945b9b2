"""Programs that consume, transform and produce: each input has its effect once, whatever dies."""

import signal
from collections.abc import Callable

import pytest

from tests.support.copier_scenes import PARTITIONS, SETTINGS, copying
from tests.support.running_cluster import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

NewCluster = Callable[..., Cluster]


def test_a_copier_has_each_effect_once_whichever_broker_is_killed(new_cluster: NewCluster) -> None:
    with copying(new_cluster(overrides=SETTINGS).start()) as scene:
        for role in scene.leaders:
            scene.kill(role)


def test_copiers_that_are_killed_and_paused_have_each_effect_once(new_cluster: NewCluster) -> None:
    """A paused one loses its partitions, so that its transaction is refused when it goes on."""
    with copying(new_cluster(overrides=SETTINGS).start(), count=3) as scene:
        first, second, _ = scene.copiers.all

        def shares() -> list[int]:
            return [each.partitions_count for each in scene.copiers.all]

        wait_until(lambda: shares() == [1, 1, 1], "each to have a partition")
        first.signal(signal.SIGSTOP)
        second.kill_and_start()
        scene.kill("the coordinator of the group")
        wait_until(lambda: sum(shares()[1:]) == PARTITIONS, "the first to be missed")
        first.signal(signal.SIGCONT)
        scene.kill("the coordinator of a transaction")
        wait_until(lambda: shares() == [1, 1, 1], "each to have a partition again")


def test_copiers_go_on_after_the_whole_cluster_was_stopped_or_killed(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides=SETTINGS).start()
    with copying(cluster) as scene:
        cluster.stop()
        cluster.start()
        scene.copiers.wait_for_more()
        cluster.kill_everything()
        cluster.start()
        scene.copiers.wait_for_more()
