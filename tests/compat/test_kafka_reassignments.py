"""kafka-reassign-partitions of Kafka 4.1 and `partitions reassign`: the same output and effects."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.reassignment_requests import alter_reassignments
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.tools.main import main
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import Ended, ToolShell
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, leader, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
Tool = Callable[..., Ended]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    disks = {"log.dirs": "disk1,disk2", "auto.leader.rebalance.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("four"), brokers=4, overrides=disks) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools"), version=NEWEST) as running:
        yield running


@pytest.fixture
def theirs(four: Cluster, shell: ToolShell) -> Tool:
    servers = ("--bootstrap-server", four.bootstrap)
    return lambda *words: shell.outcome(REASSIGN_PARTITIONS, *servers, *words)


Command = Callable[..., Ended]
"""A command of ours on the cluster, in this process."""


@pytest.fixture
def command(four: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> Ended:
        status = main(["--data-dir", str(four.data_dir), *words])
        out, err = capsys.readouterr()
        return Ended(status, out, err, out + err)

    return run


@pytest.fixture
def ours(command: Command) -> Tool:
    return partial(command, "partitions", "reassign")


def a_plan(directory: Path, topic: str, *replicas: Sequence[int], **others: Any) -> list[str]:
    """The option for a file with the replicas of each partition."""
    path = directory / f"{unique_name('plan')}.json"
    rows = [
        {"topic": topic, "partition": number, "replicas": list(brokers), **others}
        for number, brokers in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return ["--reassignment-json-file", str(path)]


def succeeded(ended: Ended, topic: str = "T") -> str:
    """What a tool printed, with T for the topic."""
    assert ended.status == 0, ended.output
    return ended.stdout.replace(topic, "T")


def throttles(command: Command, topic: str) -> dict[str, str]:
    """The settings of the topic and of all brokers that are about throttles."""
    lines = []
    for entity in (["topics", "--entity-name", topic], ["brokers"]):
        described = command("configs", "--describe", "--entity-type", *entity).stdout
        lines += described.replace(topic, "T").splitlines()
    found, where = {}, ""
    for line in lines:
        if not line.startswith(" "):
            where = line
        elif "throttled" in line or "io.max" in line:
            key, _, value = line.strip().split(" ")[0].partition("=")
            found[f"{where} {key}"] = value
    return found


def test_proposals_are_for_the_same_partitions(
    four: Cluster, theirs: Tool, ours: Tool, tmp_path: Path
) -> None:
    topics = [create_topic(four, assignments=[[0, 1], [1, 2], [0, 2]]), create_topic(four)]
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"topics": [{"topic": topic} for topic in topics], "version": 1}))
    options = ("--generate", "--topics-to-move-json-file", str(file), "--broker-list", "1,2,3")
    texts = [succeeded(tool(*options)).splitlines() for tool in (theirs, ours)]
    assert texts[0][:4] == texts[1][:4]  # where they are; the proposals are random
    proposals = [json.loads(lines[4])["partitions"] for lines in texts]
    for proposal in proposals:
        for row in proposal:
            assert len(set(row["replicas"])) == len(row["replicas"])
            assert set(row["replicas"]) <= {1, 2, 3}
    shapes = [
        [(row["topic"], row["partition"], row["log_dirs"]) for row in proposal]
        for proposal in proposals
    ]
    assert shapes[0] == shapes[1]


def test_partitions_move_and_are_throttled_in_the_same_way(
    four: Cluster, theirs: Tool, ours: Tool, command: Command, tmp_path: Path
) -> None:
    said, set_to = [], []
    for tool in (theirs, ours):
        topic = create_topic(four, assignments=[[0, 1], [1, 2]])
        plan = a_plan(tmp_path, topic, [3, 1], [2, 1, 0])
        text = succeeded(tool("--execute", *plan, "--throttle", "5000000"), topic)
        set_to.append(throttles(command, topic))
        wait_until(
            lambda tool=tool: tool("--list").stdout == "No partition reassignments found.\n",
            "the partitions to have moved",
        )
        kept = succeeded(tool("--verify", *plan, "--preserve-throttles"), topic)
        assert throttles(command, topic) == set_to[-1]
        text += kept + succeeded(tool("--verify", *plan), topic)
        assert throttles(command, topic) == {}
        other = a_plan(tmp_path, topic, [3, 2], [2, 1, 0])
        text += succeeded(tool("--verify", *other), topic)
        text += succeeded(tool("--cancel", *plan), topic)
        said.append(text)
    assert said[0] == said[1]
    assert set_to[0] == set_to[1]
    assert len(set_to[0]) == 2 + 2 * 4
    assert "Reassignment of partition T-0 is completed." in said[0]
    assert "but replica set is 3,1 rather than 3,2." in said[0]


def test_reassignments_in_progress_are_described_and_canceled_in_the_same_way(
    four: Cluster, theirs: Tool, ours: Tool, tmp_path: Path
) -> None:
    moving, waits = [], next(broker for broker in (2, 3) if broker != controller(four))
    first, second = (create_topic(four, assignments=[[0, 1], [1, 0]]) for _ in range(2))
    plans = [a_plan(tmp_path, topic, [waits, 1], [1, 0]) for topic in (first, second)]
    four.pause(waits)
    address = four.addresses[controller(four)]
    with SocketClient.connect([address], "admin") as client:
        targets = {Place(topic, 0): (waits, 1) for topic in (first, second)}
        assert not any(alter_reassignments(client, targets).values())
    four.kill(waits, stay_down=True)
    try:
        wait_until(lambda: leader(four, first, 0) in (0, 1), "a leader")
        for tool in (theirs, ours):
            listed = succeeded(tool("--list"))
            assert f"{first}-0: replicas: {waits},1,0. adding: {waits}. removing: 0." in listed
            verified = succeeded(tool("--verify", *plans[0]), first)
            assert "T-0 is still in progress" in verified
            refused = tool("--execute", *plans[1])
            assert refused.status == 1
            assert "Use --additional to override this" in refused.output
            moving.append(listed + verified)
        assert moving[0] == moving[1]
        keep = "--preserve-throttles"
        canceled = [
            succeeded(theirs("--cancel", *plans[0], keep), first),
            succeeded(ours("--cancel", *plans[1], keep), second),
        ]
        assert canceled[0] == canceled[1].rstrip("\n")  # theirs ends in no line
        assert canceled[0].startswith("Successfully cancelled partition reassignment for: T-0\n")
        assert ours("--list").stdout == theirs("--list").stdout
    finally:
        four.restart(waits)


def test_replicas_move_between_log_directories_in_the_same_way(
    four: Cluster, theirs: Tool, ours: Tool, command: Command, tmp_path: Path
) -> None:
    said = []
    for tool in (theirs, ours):
        topic = create_topic(four, assignments=[[0, 1]])
        away = other_directory(four, 1, topic)
        plan = a_plan(tmp_path, topic, [0, 1], log_dirs=["any", away])
        text = succeeded(tool("--verify", *plan), topic)
        limit = ("--replica-alter-log-dirs-throttle", "50000000")
        text += succeeded(tool("--execute", *plan, *limit), topic)
        assert len(throttles(command, topic)) == 1
        wait_until(
            lambda tool=tool, plan=plan: "successfully" in tool("--verify", *plan).stdout,
            "the replica to have moved",
        )
        text += succeeded(tool("--verify", *plan), topic)
        assert throttles(command, topic) == {}
        said.append("\n".join(line.replace(away, "D") for line in text.splitlines()))
    normal = [text.replace("disk1", "disk").replace("disk2", "disk") for text in said]
    assert normal[0] == normal[1]


def other_directory(cluster: Cluster, broker: int, topic: str) -> str:
    """The log directory of a broker that has no replica of the topic."""
    with SocketClient.connect([cluster.addresses[broker]], "admin") as client:
        found = describe_log_dirs(client, [topic])
    (path,) = [directory.path for directory in found if not directory.replicas]
    return path


def test_plans_that_cannot_be_carried_out_change_nothing(
    four: Cluster, theirs: Tool, ours: Tool, command: Command, tmp_path: Path
) -> None:
    topic = create_topic(four, assignments=[[0, 1]])
    for replicas, reason in (
        ([0, 9], "Unknown broker id 9"),
        ([0, 0], None),
        ([], None),
    ):
        plan = a_plan(tmp_path, topic, replicas)
        for tool in (theirs, ours):
            ended = tool("--execute", *plan, "--throttle", "1000")
            assert ended.status == 1
            assert reason is None or reason in ended.output
        assert ended.stderr.count("\n") == 1
    missing = a_plan(tmp_path, topic, [0, 1], [0, 1])
    for tool in (theirs, ours):
        ended = tool("--execute", *missing, "--throttle", "1000")
        assert ended.status == 1
        assert f"Unable to find partition: {topic}-1" in ended.output
    fewer = a_plan(tmp_path, topic, [0])
    words = ("--execute", *fewer, "--disallow-replication-factor-change")
    said = [tool(*words).stdout.splitlines()[-2:] for tool in (theirs, ours)]
    assert said[0] == said[1]
    assert said[0][0] == "Error reassigning partition(s):"
    assert throttles(command, topic) == {}
    assert ours("--list").stdout == "No partition reassignments found.\n"
