"""The commands for topics, settings and records against a cluster, as a person runs them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
LAUNCHER = [sys.executable, "-P", "-m", "cluster"]


class CommandLine:
    """`bin/cluster` for one data directory, without the launcher's shell."""

    def __init__(self, data_dir: Path) -> None:
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MILENA_DATA_DIR": str(data_dir),
        }

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Whatever comes of it."""
        return subprocess.run(
            [*LAUNCHER, *words],
            cwd=ROOT,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def __call__(self, *words: str, given: str = "") -> str:
        """What it prints, when it succeeds."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *words: str, given: str = "") -> str:
        """The one line on stderr of a command that ends with status 1."""
        done = self.run(*words, given=given)
        assert done.returncode == 1, done.stdout
        (line,) = done.stderr.splitlines()
        return line

    @contextmanager
    def running(self, *words: str, **streams: Any) -> Iterator[subprocess.Popen[str]]:
        """A command that runs until the test ends it, or is done with it, or at the deadline."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(
            [*LAUNCHER, *words],
            cwd=ROOT,
            env=self.environment,
            text=True,
            **{**pipes, **streams},
        ) as process:
            deadline = threading.Timer(DEADLINE_S, process.kill)
            deadline.start()
            try:
                yield process
            finally:
                deadline.cancel()
                process.kill()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CommandLine, str]]:
    """A cluster of three brokers, and what `start` said."""
    cluster = CommandLine(tmp_path_factory.mktemp("tools") / "data")
    said = cluster(
        "start",
        *("--detach", "--port", "0", "--registry-port", "0"),
        *("--override", "milena.log.preallocate.step.bytes=262144"),
    )
    try:
        yield cluster, said
    finally:
        cluster("stop", "--purge")


@pytest.fixture
def cluster(started: tuple[CommandLine, str]) -> CommandLine:
    return started[0]


def test_commands_suggested_by_start_work(started):
    cluster, said = started
    lines = said.partition("Try it:\n")[2].partition("\n\n")[0].splitlines()
    printed = [
        subprocess.run(
            re.sub(r"\S*bin/cluster", " ".join(LAUNCHER), line),
            shell=True,
            cwd=ROOT,
            env=cluster.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout
        for line in lines
    ]
    assert printed == ["Created topic hello.\n", "", "hello, world\n"]


def test_a_topic_from_creation_to_deletion(cluster):
    assert cluster("topics", "--create", "--topic", "life", "--replica-assignment", "0:1,1:2") == (
        "Created topic life.\n"
    )
    assert "life" in cluster("topics", "--list").splitlines()
    assert "life" in json.loads(cluster("topics", "--list", "--json"))

    cluster(
        "topics",
        *("--alter", "--topic", "life", "--partitions", "3"),
        *("--replica-assignment", "0:1,1:2,2:0"),
    )
    header, *partitions = cluster("topics", "--describe", "--topic", "life").splitlines()
    assert re.fullmatch(
        r"Topic: life\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: ",
        header,
    )
    assert partitions == [
        f"\tTopic: life\tPartition: {number}\tLeader: {replicas[0]}\tReplicas: {replicas}"
        f"\tIsr: {replicas}\tElr: \tLastKnownElr: "
        for number, replicas in enumerate(["0,1", "1,2", "2,0"])
    ]

    assert cluster("topics", "--delete", "--topic", "life") == ""
    assert "life" not in cluster("topics", "--list").splitlines()
    gone = "Error while executing topic command : Topic 'life' does not exist as expected"
    assert cluster.refusal("topics", "--describe", "--topic", "life") == gone
    assert cluster.refusal("topics", "--delete", "--topic", "life") == gone
    assert cluster("topics", "--delete", "--topic", "life", "--if-exists") == ""


def test_a_topic_takes_the_brokers_defaults_and_its_own_settings(cluster):
    said = cluster(
        "topics", "--create", "--topic", "own.settings", "--config", "retention.ms=60000"
    )
    warning, created = said.splitlines()
    assert warning.startswith("WARNING: Due to limitations in metric names")
    assert created == "Created topic own.settings."
    (topic,) = json.loads(cluster("topics", "--describe", "--topic", "own.settings", "--json"))
    assert topic["partition_count"] == 1
    assert topic["configs"]["retention.ms"] == "60000"

    assert "already exists" in cluster.refusal("topics", "--create", "--topic", "own.settings")
    again = cluster("topics", "--create", "--topic", "own.settings", "--if-not-exists")
    assert "Created" not in again

    listing = cluster(
        "configs", "--describe", "--entity-type", "topics", "--entity-name", "own.settings"
    )
    assert listing == (
        "Dynamic configs for topic own.settings are:\n"
        "  retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000,"
        " DEFAULT_CONFIG:log.retention.ms=604800000}\n"
    )
    every = cluster("configs", "--describe", "--topic", "own.settings", "--all").splitlines()
    assert every[0] == "All configs for topic own.settings are:"
    assert any(line.startswith("  cleanup.policy=delete ") for line in every)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--replication-factor", "9"], "Replication factor: 9 larger than available brokers: 3."),
        (["--config", "nonsense=1"], "nonsense"),
        (["--replica-assignment", "0:7"], "Unknown or dead broker(s) [7]"),
    ],
)
def test_a_refused_topic_is_one_line_with_the_brokers_reason(cluster, words, reason):
    line = cluster.refusal("topics", "--create", "--topic", "refused", *words)
    assert line.startswith("Error while executing topic command : ")
    assert reason in line


def test_settings_of_brokers(cluster):
    listing = cluster("configs", "--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert listing == "Dynamic configs for broker 1 are:\n"
    entries = json.loads(cluster("configs", "--describe", "--broker", "1", "--all", "--json"))["1"]
    broker_id = next(entry for entry in entries if entry["name"] == "broker.id")
    assert (broker_id["value"], broker_id["source"]) == ("1", "STATIC_BROKER_CONFIG")
    assert "'7' doesn't exist" in cluster.refusal("configs", "--describe", "--broker", "7")
    assert "'no' doesn't exist" in cluster.refusal("configs", "--describe", "--topic", "no")


def test_values_without_effect_are_warned_of_by_name(cluster):
    quiet = cluster.run(
        *("topics", "--create", "--topic", "quiet"),
        *("--config", "message.downconversion.enable=true", "--config", "min.insync.replicas=1"),
    )
    assert (quiet.returncode, quiet.stderr) == (0, "")
    created = cluster.run(
        *("topics", "--create", "--topic", "loud"),
        *("--config", "message.downconversion.enable=false", "--config", "min.insync.replicas=1"),
        *("--config", "message.format.version=2.8"),
    )
    assert (created.returncode, created.stdout) == (0, "Created topic loud.\n")
    assert created.stderr == (
        "WARNING: message.downconversion.enable, message.format.version (accepted, without effect"
        " yet: record batches are stored and sent in format 2 only).\n"
    )
    altered = cluster.run(
        *("configs", "--alter", "--topic", "loud"),
        *("--add-config", "local.retention.ms=9,segment.bytes=1000"),
    )
    assert altered.returncode == 0
    assert altered.stderr.startswith("WARNING: local.retention.ms (accepted, without effect yet: ")
    assert altered.stderr.count("\n") == 1
    removed = cluster.run(
        *("configs", "--alter", "--topic", "loud"),
        *("--delete-config", "local.retention.ms"),
    )
    assert (removed.returncode, removed.stderr) == (0, "")


def test_settings_of_brokers_that_do_nothing_say_so(cluster):
    lines = cluster("configs", "--describe", "--broker", "1", "--all").splitlines()
    (retries,) = [line for line in lines if "controlled.shutdown.max.retries=" in line]
    assert "(accepted, without effect yet: a stopping broker repeats its request" in retries
    (segment,) = [line for line in lines if line.strip().startswith("log.segment.bytes=")]
    assert segment.endswith("}")


def test_records_go_in_and_come_out_whole(cluster):
    cluster("topics", "--create", "--topic", "records", "--partitions", "2")
    cluster(
        "produce",
        *("--topic", "records", "--compression-codec"),
        *("--property", "parse.key=true", "--reader-property", "parse.headers=true"),
        given="h:1,g:2\tk\tv\n\tk\tw\r\n",
    )
    shown = cluster.run(
        "consume",
        *("--topic", "records", "--from-beginning", "--max-messages", "2"),
        *("--property", "print.key=true", "--property", "print.headers=true"),
        *("--formatter-property", "print.offset=true", "--formatter-property", "key.separator=|"),
    )
    assert shown.stdout == "Offset:0|h:1,g:2|k|v\nOffset:1|NO_HEADERS|k|w\n"
    assert shown.stderr == "Processed a total of 2 messages\n"

    partition = next(
        number
        for number in ("0", "1")
        if cluster(
            "consume",
            *("--topic", "records", "--partition", number, "--offset", "earliest"),
            *("--timeout-ms", "1000"),
        )
    )
    one = ("--partition", partition, "--offset", "1", "--max-messages", "1")
    assert cluster("consume", "--topic", "records", *one) == "w\n"


def test_lines_of_a_transaction_are_seen_together_or_not_at_all(cluster):
    cluster("topics", "--create", "--topic", "whole")
    send = ("produce", "--topic", "whole", "--transactional-id", "import-1")
    read = ("consume", "--topic", "whole", "--from-beginning", "--max-messages", "3")
    committed = (*read, "--isolation-level", "read_committed")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    failed = cluster.run(*send, *keyed, given="k:bad\nno key\n")
    assert failed.returncode == 1
    assert failed.stderr.splitlines() == [
        "error: No key separator found on line number 2: 'no key'",
        "error: the transaction of line 1 was aborted",
    ]

    cluster(*send, "--transaction-size", "2", given="one\ntwo\nthree\n")

    assert cluster(*committed) == "one\ntwo\nthree\n"
    assert cluster(*read) == "bad\none\ntwo\n"


def test_a_producer_with_the_same_transactional_id_fences_the_one_before(cluster):
    cluster("topics", "--create", "--topic", "fenced")
    send = ("produce", "--topic", "fenced", "--transactional-id", "import-2")
    with cluster.running(*send) as first:
        first.stdin.write("lost\n")
        first.stdin.flush()
        describe = ("transactions", "describe", "--transactional-id", "import-2", "--json")
        wait_until(
            lambda: '"state": "Ongoing"' in cluster.run(*describe).stdout, "the first line's record"
        )
        cluster(*send, given="kept\n")
        first.stdin.close()
        assert first.wait(DEADLINE_S) == 1
        assert "was not committed: " in first.stderr.read()
    read = ("consume", "--topic", "fenced", "--from-beginning", "--max-messages", "1")
    assert cluster(*read, "--isolation-level", "read_committed") == "kept\n"


def test_a_group_goes_on_where_it_was(cluster):
    cluster("topics", "--create", "--topic", "shared", "--partitions", "2")
    member = ("consume", "--include", "shar.d", "--group", "readers", "--from-beginning")
    for words in (["a", "b"], ["c"]):
        for word in words:
            cluster("produce", "--topic", "shared", given=f"{word}\n")
        read = cluster(*member, "--max-messages", str(len(words)))
        assert sorted(read.split()) == words


def test_a_line_that_is_too_long_does_not_keep_others_back(cluster):
    cluster("topics", "--create", "--topic", "long", "--config", "max.message.bytes=1000")
    long = "x" * 2000
    done = cluster.run("produce", "--topic", "long", "--sync", given=f"a\n{long}\nb\n")
    assert done.returncode == 1
    assert done.stderr == "error: line 2 was not delivered: Message size too large\n"
    read = cluster("consume", "--topic", "long", "--from-beginning", "--max-messages", "2")
    assert read == "a\nb\n"


def test_reading_a_missing_topic_does_not_create_it(cluster):
    line = cluster.refusal("consume", "--topic", "missing")
    assert line.startswith("error: there is no topic missing: create it with ")
    assert "missing" not in cluster("topics", "--list").splitlines()


def test_records_are_deleted(cluster):
    cluster("topics", "--create", "--topic", "cut", "--partitions", "1")
    cluster("produce", "--topic", "cut", given="one\ntwo\nthree\n")

    said = cluster("delete-records", "--topic", "cut", "--partition", "0", "--before-offset", "2")

    assert said.splitlines() == [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: cut-0\tlow_watermark: 2",
    ]
    assert cluster("consume", "--topic", "cut", "--from-beginning", "--max-messages", "1") == (
        "three\n"
    )
    refused = cluster.run(
        "delete-records", "--topic", "cut", "--partition", "0", "--before-offset", "4"
    )
    assert refused.returncode == 1
    assert "partition: cut-0\terror: Offset out of range" in refused.stdout


def test_records_flow_until_they_are_interrupted(cluster):
    cluster("topics", "--create", "--topic", "flow")
    with ExitStack() as running:
        reader = running.enter_context(
            cluster.running("consume", "--topic", "flow", "--from-beginning")
        )
        writer = running.enter_context(cluster.running("produce", "--topic", "flow"))
        for word in ("one\n", "two\n"):
            writer.stdin.write(word)
            writer.stdin.flush()
            assert reader.stdout.readline() == word

        writer.send_signal(signal.SIGINT)
        assert writer.wait(DEADLINE_S) == 0
        assert writer.stderr.read() == ""
        reader.send_signal(signal.SIGINT)
        assert reader.wait(DEADLINE_S) == 0
        assert reader.stderr.read() == "Processed a total of 2 messages\n"


def test_a_person_at_a_terminal_is_prompted(cluster):
    person, terminal = os.openpty()
    with ExitStack() as opened:
        keyboard = opened.enter_context(os.fdopen(person, "wb", 0))
        producer = opened.enter_context(
            cluster.running("produce", "--topic", "typed", stdin=terminal, stdout=terminal)
        )
        os.close(terminal)
        assert _read_until(person, b">") == b">"
        keyboard.write(b"word\n")
        assert _read_until(person, b">") == b"word\r\n>"
        keyboard.write(b"\x04")  # end of input
        assert producer.wait(DEADLINE_S) == 0
    read = cluster("consume", "--topic", "typed", "--from-beginning", "--max-messages", "1")
    assert read == "word\n"


def _read_until(descriptor: int, end: bytes) -> bytes:
    """What a terminal shows. Raises OSError once the command has gone."""
    received = b""
    while not received.endswith(end):
        received += os.read(descriptor, 1)
    return received


def test_a_broker_that_is_away_shows_in_the_description(cluster):
    wide = ("topics", "--create", "--topic", "wide", "--replica-assignment", "0:2")
    assert cluster(*wide, "--config", "min.insync.replicas=2")
    assert cluster("topics", "--create", "--topic", "narrow", "--replica-assignment", "2")
    under_replicated = ("topics", "--describe", "--under-replicated-partitions", "--topic", "wide")
    unavailable = ("topics", "--describe", "--unavailable-partitions")
    at_minimum = ("topics", "--describe", "--at-min-isr-partitions", "--topic", "wide|narrow")
    below = ("topics", "--describe", "--under-min-isr-partitions", "--topic", "wide|narrow")
    overridden = cluster(
        "topics", "--describe", "--topics-with-overrides", "--topic", "wide|narrow"
    )
    assert re.fullmatch(r"Topic: wide\t.*min\.insync\.replicas=2\n", overridden)
    assert cluster(*under_replicated) == ""
    assert cluster(*below) == ""
    assert re.findall(r"Topic: (\w+)", cluster(*at_minimum)) == ["narrow", "wide"]

    cluster("kill", "2", "--stay-down")
    try:
        line = wait_until(lambda: cluster(*under_replicated), "an in-sync set without the dead")
        assert line.startswith("\tTopic: wide\tPartition: 0\tLeader: 0\tReplicas: 0,2\tIsr: 0\t")
        assert "\tTopic: narrow\tPartition: 0\tLeader: none\t" in cluster(*unavailable)
        assert re.findall(r"Topic: (\w+)", cluster(*below)) == ["narrow", "wide"]
    finally:
        cluster("restart", "2")
    wait_until(lambda: cluster(*under_replicated) == "", "the broker to be in sync again")
    assert cluster(*unavailable) == ""


def test_a_broker_that_cannot_be_reached_is_named(cluster):
    for words in (
        ["topics", "--list"],
        ["configs", "--describe", "--broker", "0"],
        ["produce", "--topic", "hello"],
        ["consume", "--topic", "hello"],
    ):
        line = cluster.refusal(*words, "--bootstrap-server", "127.0.0.1:1")
        assert line == "error: cannot connect to 127.0.0.1:1 (Connection refused)"


def test_a_client_setting_that_there_is_not_is_wrong_usage(cluster):
    done = cluster.run("produce", "--topic", "hello", "--producer-property", "no.such=1")
    assert done.returncode == 2
    assert "no.such" in done.stderr
