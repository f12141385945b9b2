"""The command line, as a person uses it: start, look, kill, restart, stop, purge."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from cluster.config.properties_file import render_properties
from cluster.datadir.lock_file import is_locked
from tests.integration.registry_process import RegistryProcess
from tests.support import kafka_files
from tests.support.waiting import is_readable, wait_until

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


class CommandLine:
    """`bin/cluster` for one data directory, without the launcher's shell."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "cluster", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": str(self.data_dir)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self("start", "--detach", "--port", "0", "--registry-port", "0", *words)

    def status(self) -> dict:
        return json.loads(self("status", "--json").stdout)


@pytest.fixture
def cluster(tmp_path):
    command_line = CommandLine(tmp_path / "data")
    yield command_line
    command_line("stop", "--purge")


def test_a_cluster_from_start_to_purge(cluster):
    started = cluster.start("--brokers", "2")
    assert started.returncode == 0, started.stderr
    assert started.stdout.splitlines()[-1].startswith("Cluster ready in ")

    state = cluster.status()
    assert state["cluster_id"]
    assert state["controller"] in (0, 1)
    assert [broker["state"] for broker in state["brokers"]] == ["running", "running"]
    assert f"BOOTSTRAP={state['bootstrap']}" in started.stdout
    assert Path(state["data_dir"]) == cluster.data_dir

    again = cluster.start()
    assert again.returncode == 0
    assert again.stdout.startswith("Cluster is already running.")
    assert cluster.start("--brokers", "5").returncode == 1

    pid = state["brokers"][1]["pid"]
    killed = cluster("kill", "1", "--stay-down")
    assert f"Broker 1 (pid {pid}) was sent SIGKILL." in killed.stdout
    restarted = cluster("restart", "1")
    assert restarted.returncode == 0, restarted.stderr
    paused = cluster("pause", "1", "0", "1")
    assert paused.returncode == 0, paused.stderr
    assert paused.stdout.count("when its session times out after 18 s") == 2
    assert "resume 0`" in paused.stdout
    assert cluster("pause", "7").stderr.endswith("choose one of 0, 1, registry, dashboard\n")
    resumed = cluster("resume", "--all").stdout
    assert resumed.count("less than its session timeout of 18 s: it goes on.") == 2
    events = [json.loads(line) for line in cluster("events", "--json").stdout.splitlines()]
    assert [each["kind"] for each in events if each["subject"] == "broker 1"][-2:] == [
        *("pause", "resume")
    ]
    lines = cluster("events", "--since", "1h").stdout.splitlines()
    assert len(lines) == len(events)
    assert "broker 1   is resumed by a command (SIGCONT)" in lines[-1]
    assert lines[-1] in cluster("status").stdout
    assert cluster("dashboard").stdout == f"{state['dashboard']}\n"
    assert cluster.status()["brokers"][1]["pid"] not in (pid, None)

    stopped = cluster("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert cluster("status").returncode == 1
    again = cluster("stop")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("Cluster is stopped already.\nData stays in ")
    assert (cluster.data_dir / "broker-0").is_dir()

    purged = cluster("stop", "--purge")
    assert purged.returncode == 0, purged.stderr
    assert not cluster.data_dir.exists()


def test_kafkas_file_for_a_single_node_with_kraft_starts_a_cluster_and_is_explained(
    cluster, tmp_path
):
    file = tmp_path / "server.properties"
    file.write_text(f"{kafka_files.SERVER_4_1}controlled.shutdown.max.retries 5\n")
    started = cluster.start("--config", str(file), "--log-dirs", ".")
    assert started.returncode == 0, started.stderr
    said = started.stderr.splitlines()
    assert f"From {file}, `start` sets itself: node.id." in said
    assert sum("process.roles" in line and "registry" in line for line in said) == 1
    links, shutdown = sorted(line for line in said if line.startswith("Warning: "))[::-1]
    assert "controlled.shutdown.max.retries" in shutdown
    assert "inter.broker.listener.name" in links
    assert cluster("topics", "--create", "--topic", "works").returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        kafka_files.KRAFT_SERVER_3_9,
        render_properties(kafka_files.every_setting("3.9")),
        render_properties(kafka_files.every_setting("4.1")),
    ],
    ids=["KRaft 3.9", "every setting of 3.9", "every setting of 4.1"],
)
def test_a_cluster_starts_with_files_of_kafka(cluster, tmp_path, text):
    file = tmp_path / "server.properties"
    file.write_text(f"{text}\nconfluent.license=s3cret\nmetric.reporters=com.acme.Reporter\n")
    started = cluster.start("--brokers", "1", "--config", str(file), "--log-dirs", ".")
    assert started.returncode == 0, started.stderr
    assert "unknown broker settings are left out: confluent.license (line" in started.stderr
    assert "metric.reporters=com.acme.Reporter (Java classes cannot be loaded)" in started.stderr
    assert "s3cret" not in started.stderr
    assert cluster("topics", "--create", "--topic", "works").returncode == 0


def test_kafkas_file_for_a_broker_with_zookeeper_starts_one_at_that_registry(cluster, tmp_path):
    with RegistryProcess(tmp_path / "registry") as registry:
        file = tmp_path / "server.properties"
        given = f"zookeeper.connect=localhost:{registry.port}"
        file.write_text(
            kafka_files.ZOOKEEPER_SERVER_3_9.replace("zookeeper.connect=localhost:2181", given)
        )
        started = cluster.start("--brokers", "1", "--config", str(file), "--log-dirs", ".")
        assert started.returncode == 0, started.stderr
        assert cluster("topics", "--create", "--topic", "works").returncode == 0
        cluster("stop")


def test_partitions_are_spread_over_several_log_dirs_until_the_purge(cluster, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    started = cluster.start("--brokers", "2", "--log-dirs", f"disk1,{elsewhere}")
    assert started.returncode == 0, started.stderr
    expected = [
        [str(cluster.data_dir / "disk1" / f"broker-{number}"), str(elsewhere / f"broker-{number}")]
        for number in range(2)
    ]
    assert [broker["log_dirs"] for broker in cluster.status()["brokers"]] == expected
    assert cluster("topics", "--create", "--topic", "t", "--partitions", "4").returncode == 0
    every = [Path(path) for directories in expected for path in directories]
    wait_until(lambda: all(list(path.glob("t-*")) for path in every), "directories of partitions")
    assert cluster("stop").returncode == 0
    assert cluster.start("--brokers", "2").returncode == 0
    assert [broker["log_dirs"] for broker in cluster.status()["brokers"]] == expected
    assert cluster("stop", "--purge").returncode == 0
    assert list(elsewhere.iterdir()) == []


def test_replicas_are_spread_over_racks_that_outlast_a_stop(cluster):
    started = cluster.start("--brokers", "4", "--racks", "east,west")
    assert started.returncode == 0, started.stderr
    created = cluster(
        *("topics", "--create", "--topic", "t"),
        *("--partitions", "8", "--replication-factor", "2"),
    )
    assert created.returncode == 0, created.stderr
    refused = cluster.start("--racks", "north")
    assert "run with other racks" in refused.stderr
    assert cluster.start("--racks", "east,west,east").returncode == 1
    assert cluster.start("--racks", "east,west").returncode == 0  # as they are
    assert cluster("stop").returncode == 0
    assert "5 racks for 4 brokers" in cluster.start("--racks", "a,b,c,d,e").stderr
    assert cluster.start().returncode == 0

    state = cluster.status()
    expected = {0: "east", 1: "west", 2: "east", 3: "west"}
    assert {broker["id"]: broker["rack"] for broker in state["brokers"]} == expected
    node = cluster("registry", "--server", state["registry"], "get", "/brokers/ids/3")
    assert json.loads(node.stdout)["rack"] == "west"
    more = cluster("topics", "--alter", "--topic", "t", "--partitions", "13")
    assert more.returncode == 0, more.stderr
    admin = AdminClient({"bootstrap.servers": state["bootstrap"]})
    described = admin.describe_cluster().result(timeout=10)
    assert {node.id: node.rack for node in described.nodes} == expected
    topic = admin.describe_topics(TopicCollection(["t"]))["t"].result(timeout=10)
    assert len(topic.partitions) == 13
    for partition in topic.partitions:
        assert {node.rack for node in partition.replicas} == {"east", "west"}


def test_kafkas_file_for_a_controller_starts_nothing_and_says_why(cluster, tmp_path):
    file = tmp_path / "controller.properties"
    file.write_text(kafka_files.CONTROLLER_4_1)
    started = cluster.start("--config", str(file))
    assert started.returncode == 1
    assert started.stderr.count("\n") == 1
    assert "process.roles=controller is a node without a broker" in started.stderr


def test_a_cluster_whose_supervisor_was_killed_starts_again_at_once(cluster):
    assert cluster.start("--brokers", "2").returncode == 0
    before = cluster.status()
    os.kill(before["supervisor_pid"], signal.SIGKILL)
    began = time.monotonic()
    started = cluster.start()
    assert started.returncode == 0, started.stderr
    assert time.monotonic() - began < 15, "it waited for sessions to time out"
    after = cluster.status()
    assert after["cluster_id"] == before["cluster_id"]
    assert len(after["brokers"]) == 2
    assert cluster("stop", "--purge").returncode == 0


def test_a_broker_that_cannot_start_is_named_and_nothing_stays_behind(cluster):
    (cluster.data_dir / "run").mkdir(parents=True)
    assert cluster.start("--brokers", "1").returncode == 0
    assert cluster("stop").returncode == 0
    meta = cluster.data_dir / "broker-0" / "meta.properties"
    meta.write_text(meta.read_text().replace("broker.id=0", "broker.id=9"))
    started = cluster.start()
    assert started.returncode == 1
    assert started.stderr.startswith("Cannot start: broker 0: ")
    assert cluster("status").returncode == 1


def test_ctrl_c_while_it_starts_in_the_background_stops_it(cluster):
    starting = subprocess.Popen(
        [
            *("env", "--default-signal=INT", sys.executable, "-P", "-m", "cluster"),
            *("start", "--detach", "--port", "0", "--registry-port", "0"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": str(cluster.data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lock_file = cluster.data_dir / "run" / "supervisor.lock"
    registry_log = cluster.data_dir / "logs" / "registry.log"
    wait_until(registry_log.exists, "the first child")
    starting.send_signal(signal.SIGINT)
    output, _ = starting.communicate(timeout=DEADLINE_S)
    assert starting.returncode == 130, output
    assert "Traceback" not in output
    wait_until(lambda: not is_locked(lock_file), "the supervisor's end")


def test_ctrl_c_in_a_terminal_reaches_the_supervisor_alone_which_stops_brokers_in_order(cluster):
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-P", "-m", "cluster", "start", "--brokers", "2"]
        environment = {"PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": str(cluster.data_dir)}
        ports = ["--port", "0", "--registry-port", "0"]
        os.execve(sys.executable, [*command, *ports], os.environ | environment)
    seen = bytearray()

    def has_said(text: bytes) -> bool:
        if is_readable(terminal, 0.1):
            with suppress(OSError):  # how Linux says that nobody has the other end any more
                seen.extend(os.read(terminal, 65_536))
        return text in seen

    wait_until(lambda: has_said(b"Cluster ready"), "the cluster")
    os.write(terminal, b"\x03")
    wait_until(lambda: has_said(b"Cluster stopped in"), "the end")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    ends = [seen.index(b"%b  stopped" % name) for name in (b"broker 0", b"broker 1", b"registry")]
    assert ends == sorted(ends)
    assert b"killed" not in seen


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_file_in_the_way_is_one_line(cluster, detach):
    socket_file = cluster.data_dir / "run" / "supervisor.sock"
    socket_file.mkdir(parents=True)
    started = cluster("start", *detach, "--port", "0", "--registry-port", "0")
    assert started.returncode == 1
    assert started.stderr == f"error: cannot use {socket_file}: Is a directory\n"


def test_a_broker_that_cannot_write_its_log_says_so(cluster):
    (cluster.data_dir / "run").mkdir(parents=True)
    log_file = cluster.data_dir / "logs" / "broker-0.log"
    log_file.mkdir(parents=True)
    started = cluster.start("--brokers", "1")
    assert started.returncode == 1
    assert f"Cannot start: broker 0: cannot write {log_file}: Is a directory" in started.stderr


def test_a_first_start_that_was_killed_while_it_marked_the_directory_is_no_obstacle(cluster):
    (cluster.data_dir / "run").mkdir(parents=True)
    (cluster.data_dir / "cluster.json.new").write_text("{")
    assert cluster.start("--brokers", "1").returncode == 0


def test_a_state_file_without_brokers_is_one_line(cluster):
    cluster.data_dir.mkdir()
    (cluster.data_dir / "cluster.json").write_text('{"format": "milena-cluster-1"}')
    started = cluster.start()
    assert started.returncode == 1
    assert started.stderr.count("\n") == 1
    assert "does not say how many brokers" in started.stderr


def test_purging_a_link_removes_what_it_leads_to(cluster, tmp_path):
    target = tmp_path / "elsewhere"
    target.mkdir()
    cluster.data_dir.symlink_to(target)
    assert cluster.start("--brokers", "1").returncode == 0
    purged = cluster("stop", "--purge")
    assert purged.returncode == 0, purged.stderr
    assert not target.exists()
    assert not cluster.data_dir.is_symlink()


def test_a_closed_or_full_output_is_no_traceback(cluster):
    launcher = f"exec {sys.executable} -P -m cluster"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MILENA_DATA_DIR": str(cluster.data_dir),
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f"{launcher} {command}"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
        )

    started = run("start --detach --brokers 1 --port 0 --registry-port 0 >&-")
    assert (started.returncode, started.stderr) == (0, "")
    full = run("status --json >/dev/full")
    assert full.returncode == 1
    assert full.stderr == "error: cannot write the output: No space left on device\n"
    closed = run("status >&- 2>&-")
    assert closed.returncode == 0
    odd = run("quotas set --client-id \"$(printf 'caf\\351')\" --producer-byte-rate 1KiB")
    assert odd.returncode == 2
    assert odd.stderr == "error: 'caf\\udce9' is not text in UTF-8\n"
