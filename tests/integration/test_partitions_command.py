"""`partitions balance` and `partitions reassign` on a cluster in use."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cluster.tools.main import main
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"milena.metrics.topic.enable": "false", "log.dirs": "disk1,disk2"}
    with Cluster(tmp_path_factory.mktemp("spread"), brokers=3, overrides=settings) as made:
        yield made


class Shell:
    """Commands on the cluster, in this process."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._data_dir = str(cluster.data_dir)
        self._capsys = capsys

    def run(self, *words: str) -> str:
        assert main(["--data-dir", self._data_dir, *words]) == 0
        return self._capsys.readouterr().out

    def refusal(self, *words: str) -> str:
        assert main(["--data-dir", self._data_dir, *words]) == 1
        err = self._capsys.readouterr().err
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    def is_refused(self, *words: str) -> bool:
        status = main(["--data-dir", self._data_dir, *words])
        self._capsys.readouterr()
        return status == 1

    def replicas(self, topic: str) -> list[list[int]]:
        (found,) = json.loads(self.run("topics", "--describe", "--topic", topic, "--json"))
        return [each["replicas"] for each in found["partitions"]]


@pytest.fixture
def shell(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cluster, capsys)


def a_plan(directory: Path, topic: str, replicas: Sequence[int], **others: object) -> str:
    path = directory / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": list(replicas), **others}
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return str(path)


def test_everything_spreads_over_an_added_broker_under_load_and_nothing_is_lost(
    cluster: Cluster, shell: Shell
) -> None:
    topic = create_topic(cluster, assignments=[[0, 1]] * PARTITIONS)
    recorder = Recorder(cluster, topic, partitions=PARTITIONS)
    shell.run("add-broker")
    before = shell.replicas(topic)
    plan = shell.run("partitions", "balance")
    assert "add --execute to carry this out" in plan
    assert json.loads(shell.run("partitions", "balance", "--json"))["version"] == 1
    assert shell.replicas(topic) == before
    with recorder.producing("moving", per_second=200):
        done = shell.run("partitions", "balance", "--execute", "--throttle", "100000000")
    assert "partitions changed." in done
    assert recorder.failed == []
    assert read_all(cluster, topic, partitions=PARTITIONS) == recorder.acknowledged
    replicas = shell.replicas(topic)
    assert any(3 in held for held in replicas)
    wait_until(
        # Internal topics may have been made meanwhile.
        lambda: "nothing to do" in shell.run("partitions", "balance", "--execute"),
        "nothing to be left to move",
    )
    for entity in ("topics", "brokers"):
        assert "throttled" not in shell.run("configs", "--describe", "--entity-type", entity)


def test_a_plan_without_a_broker_leaves_nothing_on_it(cluster: Cluster, shell: Shell) -> None:
    topic = create_topic(cluster, assignments=[[0, 1]])
    shell.run("partitions", "balance", "--execute", "--without", "0")
    assert 0 not in shell.replicas(topic)[0]
    assert "there is no broker 9" in shell.refusal("partitions", "balance", "--without", "9")


def test_a_plan_names_a_log_directory_for_a_replica_that_moves_there(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    topic = create_topic(cluster, assignments=[[0, 1]])
    for path in cluster.state()["brokers"][2]["log_dirs"]:
        plan = a_plan(tmp_path, topic, [0, 2], log_dirs=["any", path])
        option = ("--reassignment-json-file", plan)
        begun = shell.run("partitions", "reassign", "--execute", *option)
        assert f"Successfully started moving log directory to {path}" in begun
        wait_until(
            lambda option=option: (
                "completed successfully" in shell.run("partitions", "reassign", "--verify", *option)
            ),
            "the replica to be in its directory",
        )
        assert (Path(path) / f"{topic}-0").is_dir()
    assert shell.replicas(topic) == [[0, 2]]
    wrong = a_plan(tmp_path, topic, [0, 2], log_dirs=["any", "/nowhere"])
    words = ("partitions", "reassign", "--execute", "--reassignment-json-file", wrong)
    assert "/nowhere" in shell.refusal(*words)


def test_a_refused_plan_leaves_no_throttle(cluster: Cluster, shell: Shell, tmp_path: Path) -> None:
    topic = create_topic(cluster, assignments=[[0, 1]])
    plan = ("--reassignment-json-file", a_plan(tmp_path, topic, [0, 1, 2]))
    options = ("--disallow-replication-factor-change", "--throttle", "1000")
    refused = shell.refusal("partitions", "reassign", "--execute", *plan, *options)
    assert "1 partition(s) could not be reassigned" in refused
    assert shell.replicas(topic) == [[0, 1]]
    for entity in ("topics", "brokers"):
        assert "throttled" not in shell.run("configs", "--describe", "--entity-type", entity)


def test_a_broker_that_is_down_is_named_and_can_be_left_out(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    topic = create_topic(cluster, assignments=[[0, 1]])
    cluster.kill(1, stay_down=True)
    try:
        wait_until(lambda: shell.is_refused("partitions", "balance"), "the death to be noticed")
        assert "broker 1 is down" in shell.refusal("partitions", "balance")
        plan = ("--reassignment-json-file", a_plan(tmp_path, topic, [0, 1, 2]))
        refused = shell.refusal("partitions", "reassign", "--execute", *plan)
        assert "Unknown broker id 1" in refused
        assert shell.replicas(topic) == [[0, 1]]
        shell.run("partitions", "balance", "--execute", "--without", "1")
        assert 1 not in shell.replicas(topic)[0]
    finally:
        cluster.restart(1)
