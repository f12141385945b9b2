"""`groups` against a real cluster: what is listed, described, reset and deleted."""

import json
import re
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.tools.main import main
from tests.compat.confluent_records import produce
from tests.compat.samples import Sample
from tests.support.running_cluster import Cluster
from tests.support.running_members import a_group
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

RECORDS = [Sample(number % 3, None, b"v") for number in range(31)]


def groups(cluster: Cluster, *words: str) -> str:
    return cluster.command("groups", *words).stdout


def test_groups_command_shows_a_group_from_creation_to_deletion(cluster: Cluster) -> None:
    topic, name = create_topic(cluster, partitions=3), unique_name("life")
    produce(cluster.bootstrap, topic, RECORDS)
    who = ("--group", name)
    with a_group(cluster.bootstrap, name, [topic]) as running:
        member = running.start()
        wait_until(lambda: len(member.read) == len(RECORDS), "all records")
        assert name in groups(cluster, "--list").splitlines()
        assert [name, "Stable"] in [
            line.split() for line in groups(cluster, "--list", "--state").splitlines()
        ]
        typed = groups(cluster, "--list", "--state", "Stable,Empty", "--type", "classic")
        assert [name, "Classic", "Stable"] in [line.split() for line in typed.splitlines()]
        assert name not in groups(cluster, "--list", "--state", "empty")

        def offsets() -> list[list[str]]:
            lines = groups(cluster, "--describe", *who).splitlines()
            return [line.split()[2:6] for line in lines[2:]]

        ends = [["0", "11", "11", "0"], ["1", "10", "10", "0"], ["2", "10", "10", "0"]]
        wait_until(lambda: offsets() == ends, "the last commit")
        state = groups(cluster, "--describe", *who, "--state").splitlines()[2].split()
        assert state[3:] == ["range", "Stable", "1"]
        members = groups(cluster, "--describe", *who, "--members", "--verbose")
        assert members.splitlines()[2].split()[2:] == [
            *("/127.0.0.1", "confluent", "3", f"{topic}(0,1,2)")
        ]
        for words in (["--delete"], ["--reset-offsets", "--all-topics", "--to-earliest"]):
            refused = cluster.command("groups", *words, *who, check=False)
            assert (refused.returncode, refused.stdout.strip()[:5]) in ((1, ""), (1, "Nothi"))
            assert "Error: " in refused.stderr
        member.leave()

    described = cluster.command("groups", "--describe", *who)
    assert f"Consumer group '{name}' has no active members." in described.stderr
    verbose = groups(cluster, "--describe", *who, "--offsets", "--verbose").splitlines()
    assert verbose[1].split()[2:4] == ["PARTITION", "LEADER-EPOCH"]
    delete = ("--delete-offsets", *who, "--topic")
    assert groups(cluster, *delete, f"{topic}:1,2").splitlines() == [
        f"Request succeed for deleting offsets with topic {topic}:1,2 group {name}",
        "",
        "TOPIC                          PARTITION       STATUS",
        *(f"{topic:30} {number:<15} Successful" for number in (1, 2)),
    ]
    lines = groups(cluster, "--describe", *who).splitlines()[2:]
    assert [line.split()[2] for line in lines] == ["0"]
    refused = cluster.command("groups", *delete, f"{topic}:9", check=False)
    assert (refused.returncode, refused.stdout.split()[-3:]) == (
        1,
        ["9", "Error:", "UNKNOWN_TOPIC_OR_PARTITION"],
    )
    assert "partition level error" in refused.stderr
    groups(cluster, "--delete", *who)
    nobody = cluster.command("groups", *delete, topic, check=False)
    assert (nobody.returncode, f"'{name}' does not exist." in nobody.stderr) == (1, True)
    gone = cluster.command("groups", "--describe", *who, check=False)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "does not exist" in gone.stderr


def test_offsets_are_reset_to_every_target(cluster: Cluster, tmp_path, capsys) -> None:
    """In this process: to start one for each command takes longer than all that they do."""
    topic, name = create_topic(cluster, partitions=3), unique_name("reset")
    produce(cluster.bootstrap, topic, RECORDS)

    def told(*words: str) -> tuple[str, str]:
        assert main(["--data-dir", str(cluster.data_dir), "groups", *words]) == 0
        return capsys.readouterr()

    def after(*words: str) -> list[int]:
        """The offsets after an executed reset, by partition."""
        which = () if "--from-file" in words or "--all-topics" in words else ("--topic", topic)
        text, _ = told("--reset-offsets", "--group", name, *which, *words, "--execute")
        return [int(line.split()[3]) for line in text.splitlines()[2:]]

    assert after("--to-latest") == [11, 10, 10]
    assert after("--shift-by", "-3") == [8, 7, 7]
    assert after("--to-current") == [8, 7, 7]
    assert after("--to-offset", "9", "--all-topics") == [9, 9, 9]
    assert after("--shift-by", "100") == [11, 10, 10]
    assert after("--to-earliest") == [0, 0, 0]
    assert after("--to-datetime", "2023-01-01T00:00:00.000") == [0, 0, 0]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert after("--to-datetime", f"{tomorrow:%Y-%m-%dT%H:%M:%S}.000") == [11, 10, 10]
    assert after("--by-duration", "P20000D") == [0, 0, 0]
    plan = tmp_path / "plan.csv"
    export = ("--reset-offsets", "--group", name, "--topic", f"{topic}:1", "--to-offset", "4")
    plan.write_text(told(*export, "--export")[0])
    assert plan.read_text() == f"{topic},1,4\n"
    assert after("--from-file", str(plan)) == [4]
    assert "Nothing is changed" in told(*export, "--dry-run")[1]
    lines = told("--describe", "--group", name)[0].splitlines()[2:]
    assert [line.split()[3] for line in lines] == ["0", "4", "0"]


def test_groups_explain_names_the_cause_of_each_rebalance(cluster: Cluster) -> None:
    topic, name = create_topic(cluster, partitions=2), unique_name("why")
    who = ("explain", "--group", name)

    def explained() -> Any:
        return json.loads(groups(cluster, *who, "--json"))

    unknown = cluster.command("groups", *who, check=False)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert f"Consumer group '{name}' does not exist." in unknown.stderr
    lasting_ms = 60_000  # the paused member is waited for as long as the test looks
    with a_group(cluster.bootstrap, name, [topic], session_ms=lasting_ms) as running:
        first = running.start()
        running.wait_until_shared([first], [(topic, 0), (topic, 1)])
        first.signal(signal.SIGSTOP)
        second = running.start()

        def waiting() -> str | None:
            text = groups(cluster, *who, "--verbose")
            return text if "waiting " in text else None

        text = wait_until(waiting, "a rebalance that waits for the first member")
        assert "PreparingRebalance for" in text
        assert re.search(
            r"waiting +for [\d.]+ m?s for client confluent at 127.0.0.1 \(member", text
        )
        assert "What to do\n- Client confluent at 127.0.0.1" in text
        assert max(map(len, text.splitlines())) <= 100
        brief = " ".join(groups(cluster, *who).split())
        assert brief.startswith(f"Group '{name}' has been rebalancing for ")
        assert "; it waits for client confluent at 127.0.0.1 (member" in brief
        first.signal(signal.SIGCONT)
        running.wait_until_shared([first, second], [(topic, 0), (topic, 1)])
        found = explained()
        assert found["state"] == "Stable"
        assert sorted(member["assigned"][topic] for member in found["members"]) == [[0], [1]]
        causes = [rebalance["causes"][0]["kind"] for rebalance in found["rebalances"]]
        assert causes[0] == "member_joined"
        assert set(found["state_times_ms"]) >= {"PreparingRebalance", "Stable"}
        second.leave()
    last = explained()["rebalances"][-1]["causes"][-1]
    assert (last["kind"], last["member"]["client_id"]) == ("member_left", "confluent")


def test_a_paused_coordinator_is_named_and_not_taken_for_a_group_without_use(
    cluster: Cluster,
) -> None:
    topic, name = create_topic(cluster, partitions=1), unique_name("paused")
    with a_group(cluster.bootstrap, name, [topic], session_ms=60_000) as running:
        member = running.start()
        running.wait_until_shared([member], [(topic, 0)])
        coordinator = json.loads(groups(cluster, "explain", "--group", name, "--json"))[
            "coordinator"
        ]
        try:
            cluster.command("kill", str(coordinator), "--signal", "STOP")
            asked = cluster.command("groups", "explain", "--group", name, check=False)
        finally:
            cluster.command("kill", str(coordinator), "--signal", "CONT")
        assert (asked.returncode, asked.stdout) == (1, "")
        assert f"does not answer at present (broker {coordinator} is paused)" in asked.stderr
        assert "no group has been used" not in asked.stderr

        def outages() -> list[Any]:
            told = cluster.command("groups", "explain", "--group", name, "--json", check=False)
            found: list[Any] = json.loads(told.stdout)["outages"] if told.stdout else []
            return found

        outage = wait_until(outages, "a coordinator that answers")[-1]
        assert (outage["broker"], outage["was_paused"]) == (coordinator, True)
        assert outage["until_ms"] is not None


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--describe"], "needs --group"),
        (["--describe", "--group", "g", "--all-groups"], "needs --group"),
        (["--list", "--group", "g"], "--group does not go with --list"),
        (["--delete", "--group", "g", "--state"], "--state does not go with"),
        (["--describe", "--group", "g", "--members", "--offsets"], "one of"),
        (["--describe", "--group", "g", "--state", "empty"], "without a value"),
        (["--describe", "--group", "g", "--type"], "--type does not go with"),
        (["--list", "--state", "asleep"], "Invalid states list 'asleep'. Valid states are: Prep"),
        (["--delete-offsets", "--group", "g"], "needs --group and --topic"),
        (["--delete-offsets", "--topic", "t"], "needs --group and --topic"),
        (["--describe", "--group", "g", "--to-earliest"], "--to-earliest does not go with"),
        (["--reset-offsets", "--group", "g", "--topic", "t"], "needs a target"),
        (["--reset-offsets", "--group", "g", "--to-latest"], "needs --topic"),
        (
            ["--reset-offsets", "--group", "g", "--from-file", "f", "--topic", "t"],
            "--from-file does not go with",
        ),
    ],
)
def test_contradictory_options_are_refused(words, reason, capsys):
    assert main(["groups", *words]) == 2
    assert reason in capsys.readouterr().err
