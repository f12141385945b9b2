"""The dashboard's views of readings: rows of clients, the cluster, command lines."""

import json
import math
import shlex
import signal
from typing import Any

import pytest

from cluster.client.topic_requests import ClusterFacts, PartitionFacts, TopicFacts
from cluster.dashboard.broker_actions import ACTIONS, action_request, action_row
from cluster.dashboard.client_rows import client_row, ranked
from cluster.dashboard.cluster_view import cluster_view
from cluster.dashboard.quota_command import quota_command
from cluster.dashboard.quota_list import QUOTAS_MAX, quota_list
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.tools import kill, pause, restart, resume
from cluster.tools.command_parser import CommandParser
from cluster.tools.quotas.command import add_parser
from cluster.views.client_states import ALIVE, DEAD, BrokerStats, ClientState, by_client


def broker(number: int = 0, state: str = ALIVE, **values: float) -> BrokerStats:
    named = {BY_KEY[key].name: value for key, value in values.items()}
    return BrokerStats(number, state, 0, Stats(f"broker-{number}", 1, 0, 0, 0, named, []))


def state(client_id: str = "c", source: BrokerStats | None = None, **fields: Any) -> ClientState:
    row = QuotaRow(**{"quota": "produce", "user": "alice", "client_id": client_id, **fields})
    return ClientState(source or broker(), row, 0)


# ---------------------------------------------------------------------------- clients


def test_the_worst_client_comes_first_and_the_dead_last() -> None:
    states = [
        state("dead", broker(1, DEAD), limit=1.0, rate=9.0),
        state("fast", rate=500.0),
        state("near", limit=100.0, rate=90.0),
        state("over", limit=100.0, rate=120.0),
    ]
    order = [key[1] for key, _ in ranked(by_client(states))]
    assert order == ["over", "near", "fast", "dead"]


def test_client_row_is_valid_json_when_the_limit_is_0() -> None:
    ((key, states),) = ranked(by_client([state(limit=0.0, rate=5.0)]))
    row = client_row(key, states)
    assert states[0].row.utilization == math.inf
    assert row["brokers"][0]["utilisation"] is None
    assert row["brokers"][0]["limit"] == 0.0
    json.dumps(row, allow_nan=False)


# ---------------------------------------------------------------------------- cluster


def topic(name: str, *partitions: PartitionFacts, internal: bool = False) -> TopicFacts:
    return TopicFacts(name, internal, partitions)


FINE = PartitionFacts(0, 1, (1, 2), (1, 2))
LAGGING = PartitionFacts(1, 1, (1, 2), (1,))
OFFLINE = PartitionFacts(2, None, (2,), ())


def test_the_health_of_a_cluster() -> None:
    facts = ClusterFacts(1, (topic("a", FINE, LAGGING), topic("b", OFFLINE)))
    brokers = [
        broker(
            1,
            UnderMinIsrPartitionCount=3,
            OpenTransactions=2,
            OldestOpenTransactionMs=900,
            HeldBackPartitions=1,
            LastStableOffsetLag=7,
        ),
        broker(2, DEAD, UnderMinIsrPartitionCount=8, OpenTransactions=5),
        broker(3, OpenTransactions=1, OldestOpenTransactionMs=1_200),
    ]
    view = cluster_view(facts, brokers, {1: 70})
    assert view["health"] == {
        "brokers": 3,
        "brokers_up": 2,
        "under_replicated": 2,
        "under_min_isr": 3,
        "offline": 1,
        "topics": 2,
        "partitions": 3,
        "open_transactions": 3,
        "oldest_transaction_ms": 1_200,
        "held_back": 1,
        "held_back_records": 7,
    }
    assert view["brokers"] == [
        {"id": 1, "leaders": 2, "replicas": 2, "disk_bytes": 70},
        {"id": 2, "leaders": 0, "replicas": 3, "disk_bytes": None},
        {"id": 3, "leaders": 0, "replicas": 0, "disk_bytes": None},
    ]


# ---------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    "name", ["loader", "two words", "-x", "--help", "a'b\"c", "$(reboot)", "a\nb", "😀", "a=b"]
)
def test_the_command_line_names_the_same_entity(name: str) -> None:
    line = quota_command(
        "bin/cluster",
        {"user": None, "client-id": name},
        {"producer_byte_rate": 1_048_576.0, "consumer_byte_rate": 2e12, "request_percentage": 12.5},
    )
    words = shlex.split(line)
    assert words[:3] == ["bin/cluster", "quotas", "set"]
    parser = CommandParser()
    add_parser(parser.add_subparsers())
    given = parser.parse_args(words[1:])
    assert (given.user_default, given.client_id) == (True, name)
    assert given.consumer_byte_rate == 2e12
    assert (given.producer_byte_rate, given.request_percentage) == (1_048_576.0, 12.5)


def test_quotas_are_listed_with_what_removes_them() -> None:
    found = {
        QuotaEntity(DEFAULT, None): {"request_percentage": 50.0},
        QuotaEntity("bob", "x y"): {"consumer_byte_rate": 2.0, "producer_byte_rate": 1.0},
        QuotaEntity(None, None, "127.0.0.1"): {"connection_creation_rate": 9.0},
    }
    told = quota_list("milena", found)
    assert [each["name"] for each in told["quotas"]] == [
        "user 'bob', client-id 'x y'",
        "default user",
        "ip '127.0.0.1'",
    ]
    by_name = {each["name"]: each for each in told["quotas"]}
    bob = by_name["user 'bob', client-id 'x y'"]
    assert bob["entity"] == {"user": "bob", "client-id": "x y"}
    assert [(each["key"], each["quota"], each["limit"]) for each in bob["limits"]] == [
        ("producer_byte_rate", "produce", 1.0),
        ("consumer_byte_rate", "fetch", 2.0),
    ]
    assert bob["limits"][0]["command"] == (
        "milena quotas unset --user=bob '--client-id=x y' --producer-byte-rate"
    )
    assert by_name["default user"]["entity"] == {"user": None}
    assert by_name["ip '127.0.0.1'"]["limits"][0]["command"] == (
        "milena quotas unset --ip=127.0.0.1 --connection-creation-rate"
    )


def test_quotas_beyond_the_bound_are_counted() -> None:
    many = {
        QuotaEntity(None, f"c{number:05}"): {"request_percentage": 1.0}
        for number in range(QUOTAS_MAX + 7)
    }
    told = quota_list("milena", many)
    assert (len(told["quotas"]), told["left_out"]) == (QUOTAS_MAX, 7)
    assert told["quotas"][0]["entity"] == {"client-id": "c00000"}


@pytest.mark.parametrize("action", ACTIONS)
def test_the_command_line_asks_the_supervisor_for_the_same(action: str) -> None:
    row = action_row("bin/cluster", {"id": 2, "session_timeout_ms": 6_000}, action)
    assert (row["broker"], row["action"]) == (2, action)
    assert row["label"].lower().replace(" ", "-") == action
    words = shlex.split(row["command"])[1:]
    parser = CommandParser()
    commands = parser.add_subparsers(dest="command")
    for module in (kill, pause, resume, restart):
        module.add_parser(commands)
    given = parser.parse_args(words)
    request = action_request(2, action)
    sent = {"pause": signal.SIGSTOP, "resume": signal.SIGCONT}.get(given.command)
    assert request.get("signal") == getattr(given, "signal", sent)
    assert request.get("stay_down", False) == getattr(given, "stay_down", False)
    assert request["command"] == ("restart" if given.command == "restart" else "kill")


def test_a_question_before_a_pause_says_when_the_others_notice() -> None:
    row = action_row("milena", {"id": 2, "session_timeout_ms": 6_000}, "pause")
    assert row["confirm"].startswith("Pause broker 2 with SIGSTOP? ")
    assert "times out after 6 s" in row["confirm"]
    row = action_row("milena", {"id": 2}, "kill-and-keep-down")
    assert "until it is restarted" in row["confirm"]


def test_setting_and_removing_at_once_are_two_commands() -> None:
    changes = {"producer_byte_rate": 5.0, "consumer_byte_rate": None}
    assert quota_command("milena", {"client-id": None}, changes) == (
        "milena quotas set --client-default --producer-byte-rate=5"
        " && milena quotas unset --client-default --consumer-byte-rate"
    )
