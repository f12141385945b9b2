"""Random histories of a whole cluster, each from a seed.

`SIM_SEEDS=17` replays one seed, `SIM_SEEDS=0-1000` runs as many as there is patience for.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.consumers import NEWER_GROUPS
from tests.simulation.faults import (
    RETENTION,
    THROTTLES,
    DeletedRecords,
    FailingDirectories,
    FullDisks,
    GroupCommits,
    LostDisks,
    NewerGroups,
    PowerLosses,
    RandomHistory,
    Throttles,
)
from tests.support.examples import share_of

pytestmark = pytest.mark.no_cover  # it doubles their time; the scenarios take the same paths

ASKED = os.environ.get("SIM_SEEDS", "")


def seeds(count: int) -> range:
    """Those asked for, else the first `count`, or a part of them where the run is not long."""
    if not ASKED:
        return range(share_of(count))
    first, _, last = ASKED.partition("-")
    return range(int(first), int(last or first) + 1)


def run(
    seed: int,
    directory: Path,
    history: type[RandomHistory],
    minimum: int,
    directory_count: int = 1,
    overrides: Mapping[str, str] | None = None,
) -> None:
    """The seed decides about the shape of the cluster too."""
    cluster = SimulatedCluster(
        seed,
        directory,
        broker_count=5 if seed % 5 == 4 else 3,
        min_insync_replicas=max(minimum, 2 if seed % 3 else 1),
        by_file=seed % 2 == 0,
        is_local=seed % 2 == 0 and seed % 6 != 2,
        directory_count=directory_count,
        overrides=overrides,
    )
    try:
        with cluster:
            of_seed = history(cluster)
            of_seed.run()
    except BaseException as error:
        test = os.environ["PYTEST_CURRENT_TEST"].split("[")[0].split(" ")[0]
        cluster.explain(error, f"SIM_SEEDS={seed} bin/test {test}")
        raise
    assert of_seed.was_answered
    assert bool(cluster.lines.delivered) == cluster.is_local


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(40))
def test_no_acknowledged_record_is_lost_whatever_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, RandomHistory, minimum=1)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(20))
def test_no_acknowledged_record_is_lost_when_log_directories_fail(
    seed: int, tmp_path: Path
) -> None:
    run(seed, tmp_path, FailingDirectories, minimum=1, directory_count=2)


@pytest.mark.simulation
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="says where a file is")
@pytest.mark.parametrize("seed", seeds(20))
def test_no_acknowledged_record_is_lost_when_disks_fill_up(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, FullDisks, minimum=1)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(12))
def test_no_acknowledged_record_is_lost_when_replication_is_throttled(
    seed: int, tmp_path: Path
) -> None:
    run(seed, tmp_path, Throttles, minimum=1, overrides=THROTTLES)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(20))
def test_no_acknowledged_offset_is_lost_whatever_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, GroupCommits, minimum=2)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(20))
def test_no_partition_has_two_members_whatever_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, NewerGroups, minimum=2, overrides=NEWER_GROUPS)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(20))
def test_deleted_records_stay_deleted_and_all_others_are_kept(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, DeletedRecords, minimum=1, overrides=RETENTION)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(20))
def test_no_acknowledged_record_is_lost_when_one_machine_loses_power(
    seed: int, tmp_path: Path
) -> None:
    run(seed, tmp_path, PowerLosses, minimum=2)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", seeds(30))
def test_no_acknowledged_record_is_lost_while_one_disk_survives(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, LostDisks, minimum=2, directory_count=1 + seed % 2)


@pytest.mark.simulation
def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    """The same events in the same order, or a failure could not be replayed."""
    histories = []
    for name in ("first", "second"):
        with SimulatedCluster(7, tmp_path / name) as cluster:
            RandomHistory(cluster).run(steps=60)
        trace = [line.replace(str(tmp_path / name), "") for line in cluster.world.trace]
        histories.append((cluster.world.event_count, len(cluster.checks.acked), trace))
    assert histories[0] == histories[1]
