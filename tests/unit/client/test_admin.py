"""Administrative requests find the broker that answers them, also while its role moves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from cluster.client import admin as admin_module
from cluster.client.admin import Admin, Outcome
from cluster.client.security import Address, Servers
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import ClusterFacts, PartitionFacts, Place, TopicFacts, by_leader
from cluster.model.errors import ErrorCode, Refused, UserError

ONE: Address = ("127.0.0.1", 1)
TWO: Address = ("127.0.0.1", 2)
PLACE = Place("orders", 0)


class Connection:
    """A `SocketClient` that only knows its broker."""

    def __init__(self, address: Address) -> None:
        self.at = address
        self.is_open = True

    def wait_for_answers(self, timeout_s: float) -> None:
        """Never waits."""

    def close(self) -> None:
        self.is_open = False


class Cluster:
    """Two brokers; tests change who leads, who is up and who is the controller."""

    def __init__(self) -> None:
        self.up = {ONE, TWO}
        self.controller: int | None = 1
        self.leader: int | None = 1
        self.opened: list[Connection] = []

    def connect(self, servers: Servers, _client_id: str, _timeout_s: float) -> Connection:
        for address in servers.addresses:
            if address in self.up:
                self.opened.append(Connection(address))
                return self.opened[-1]
        raise UserError("cannot connect")

    def facts(self, client: Connection) -> ClusterFacts:
        if client.at not in self.up:
            raise UserError("lost the broker")
        partitions = (PartitionFacts(0, self.leader, (1, 2), (1, 2)),)
        topics = (TopicFacts("orders", False, partitions),)
        return ClusterFacts(self.controller, topics, {1: ONE, 2: TWO})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    known = Cluster()
    monkeypatch.setattr(SocketClient, "connect", known.connect)
    monkeypatch.setattr(admin_module, "cluster_facts", known.facts)
    monkeypatch.setattr(admin_module, "POLL_S", 0)
    return known


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(Servers([ONE, TWO]), "test") as made:
        yield made
    assert not any(connection.is_open for connection in cluster.opened)


@pytest.fixture
def impatient(cluster: Cluster) -> Iterator[Admin]:
    with Admin(Servers([ONE, TWO]), "test", patience_s=0) as made:
        yield made


def test_a_request_follows_the_controller(cluster: Cluster, admin: Admin) -> None:
    asked: list[Address] = []

    def ask(client: Any) -> str:
        asked.append(client.at)
        if len(asked) == 1:
            cluster.controller = 2
            raise Refused(ErrorCode.not_controller)
        return "done"

    assert admin.controller(ask) == "done"
    assert asked == [ONE, TWO]


def test_a_request_waits_for_a_controller_that_is_reached(
    cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.controller = 2
    cluster.up = {ONE}

    def sleep(_seconds: float) -> None:
        cluster.controller = 1

    monkeypatch.setattr("time.sleep", sleep)
    assert admin.controller(lambda client: getattr(client, "at")) == ONE  # noqa: B009 - a Connection


def test_other_refusals_are_final(admin: Admin) -> None:
    asked = []

    def ask(_client: SocketClient) -> None:
        asked.append(1)
        raise Refused(ErrorCode.topic_already_exists)

    with pytest.raises(Refused, match="topic_already_exists"):
        admin.controller(ask)
    assert len(asked) == 1


def test_a_request_that_may_have_been_carried_out_is_not_repeated(admin: Admin) -> None:
    asked = []

    def ask(_client: SocketClient) -> None:
        asked.append(1)
        raise UserError("lost the broker")

    with pytest.raises(UserError, match="lost"):
        admin.controller(ask)
    assert len(asked) == 1


def test_patience_with_a_controller_that_never_settles_ends(
    cluster: Cluster, impatient: Admin
) -> None:
    cluster.controller = None
    with pytest.raises(Refused, match="no controller"):
        impatient.controller(lambda _client: None)


def test_each_leader_is_asked_for_its_partitions_until_it_leads(
    cluster: Cluster, admin: Admin
) -> None:
    asked: list[Address] = []

    def ask(client: Any, places: Sequence[Place]) -> Mapping[Place, Outcome]:
        asked.append(client.at)
        if client.at == ONE:
            cluster.leader = 2
            return dict.fromkeys(places, Outcome(ErrorCode.not_leader_or_follower))
        return dict.fromkeys(places, Outcome(ErrorCode.none, 7))

    missing = Place("orders", 1)
    assert admin.leaders([PLACE, missing], ask) == {
        PLACE: Outcome(ErrorCode.none, 7),
        missing: Outcome(ErrorCode.unknown_topic_or_partition),
    }
    assert asked == [ONE, TWO]


def test_a_partition_without_a_leader_is_given_up_in_the_end(
    cluster: Cluster, impatient: Admin
) -> None:
    cluster.leader = None
    found = impatient.leaders([PLACE], lambda client, places: {})
    assert found == {PLACE: Outcome(ErrorCode.leader_not_available)}


def test_another_broker_answers_for_one_that_has_stopped(cluster: Cluster, admin: Admin) -> None:
    cluster.up = {TWO}
    assert admin.facts().controller == 1
    assert admin.any_broker(lambda client: getattr(client, "at")) == TWO  # noqa: B009


def test_partitions_are_grouped_by_their_leaders_in_order() -> None:
    leaders = [(0, "b"), (1, None), (2, "a"), (3, "b")]
    assert by_leader(leaders) == {"b": [0, 3], "a": [2]}
