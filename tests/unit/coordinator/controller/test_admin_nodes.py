"""Nodes by which tools of Kafka's ZooKeeper mode ask the controller for something."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.coordinator.cluster_store import RETRY_MS
from cluster.coordinator.registry.documents import paths
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import Acknowledged
from tests.support.controller_stage import ORDERS_0, Member, Outcomes, Stage, propose

REASSIGNMENTS, ELECTIONS = paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.fixture
def controller(stage: Stage) -> Member:
    """Broker 1 of three. `orders-0` and `orders-1` are on brokers 1 and 2."""
    member = stage.member(1)
    stage.member(2)
    stage.member(3)
    member.driver.campaign()
    settle(stage, member)
    replicas = (BrokerId(1), BrokerId(2))
    member.requests.create_topics(
        [NewTopic("orders", assignment={0: replicas, 1: replicas})],
        validate_only=False,
        timeout_ms=1_000,
        on_done=Outcomes(),
    )
    settle(stage, member)
    return member


def settle(stage: Stage, member: Member) -> None:
    """Until every message is answered."""
    stage.settle()
    while member.link.answer_all(Acknowledged(ErrorCode.none)):
        stage.settle()


def put(stage: Stage, path: str, document: object) -> None:
    """Create or replace a node, as another tool."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    if path in stage.tree.nodes:
        stage.tree.set(path, text, -1)
    else:
        stage.tree.create(path, text, 0)


def moves(*targets: tuple[str, int, list[int]]) -> Any:
    names = ("topic", "partition", "replicas")
    return {"version": 1, "partitions": [dict(zip(names, each, strict=True)) for each in targets]}


def elections(*partitions: tuple[str, int]) -> Any:
    names = ("topic", "partition")
    return {
        "version": 1,
        "partitions": [dict(zip(names, each, strict=True)) for each in partitions],
    }


def content(stage: Stage, path: str) -> Any:
    """None: there is no such node."""
    node = stage.tree.nodes.get(path)
    return None if node is None else json.loads(node.document)


def state_of(member: Member, number: int = 0) -> PartitionState:
    assert member.driver.controller is not None
    return member.driver.controller.state.topics["orders"].partitions[number]


def finish_move(stage: Stage, member: Member, partition: int = 0) -> None:
    """Let the added replicas join the ISR."""
    state = state_of(member, partition)
    isr: list[int] = [*state.isr, *state.adding]
    propose(member, isr, state.partition_epoch, partition=partition)
    settle(stage, member)


def test_a_node_of_reassignments_names_those_that_are_not_completed(
    stage: Stage, controller: Member
) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [2, 3]), ("orders", 1, [3, 1])))
    settle(stage, controller)
    assert (state_of(controller).adding, state_of(controller).removing) == ((3,), (1,))
    assert content(stage, REASSIGNMENTS) is not None

    finish_move(stage, controller)
    assert state_of(controller).replicas == (2, 3)
    assert content(stage, REASSIGNMENTS) == moves(("orders", 1, [3, 1]))
    finish_move(stage, controller, 1)
    assert state_of(controller, 1).replicas == (3, 1)
    assert content(stage, REASSIGNMENTS) is None


def test_reassignments_that_are_refused_leave_the_node_with_one_line(
    stage: Stage, controller: Member, caplog: pytest.LogCaptureFixture
) -> None:
    put(
        stage,
        REASSIGNMENTS,
        moves(("orders", 0, [1, 9]), ("orders", 7, [1]), ("no", 0, [1]), ("orders", 1, [2, 1])),
    )
    with caplog.at_level(logging.WARNING, "cluster.coordinator.controller.admin_nodes"):
        settle(stage, controller)
    assert content(stage, REASSIGNMENTS) is None
    assert state_of(controller, 1).replicas == (2, 1)
    (line,) = caplog.messages
    assert "orders-0: The manual partition assignment includes broker 9" in line
    assert "no-0: Unable to find a topic named no." in line


def test_a_node_may_gain_reassignments_while_others_go_on(stage: Stage, controller: Member) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3])))
    settle(stage, controller)
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3]), ("orders", 1, [3, 2])))
    settle(stage, controller)
    assert state_of(controller, 1).adding == (3,)
    finish_move(stage, controller, 1)
    assert content(stage, REASSIGNMENTS) == moves(("orders", 0, [3]))


def test_reassignments_that_clients_cancel_or_replace_leave_the_node(
    stage: Stage, controller: Member
) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3, 1]), ("orders", 1, [3])))
    settle(stage, controller)
    controller.requests.alter_reassignments(
        [(ORDERS_0, None)], may_change_factor=True, timeout_ms=1_000, on_done=lambda *_: None
    )
    settle(stage, controller)
    assert content(stage, REASSIGNMENTS) == moves(("orders", 1, [3]))
    controller.requests.delete_topics([("orders", None)], 1_000, lambda _: None)
    settle(stage, controller)
    assert content(stage, REASSIGNMENTS) is None


def test_removing_the_node_does_not_end_its_reassignments(stage: Stage, controller: Member) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3])))
    settle(stage, controller)
    stage.tree.delete(REASSIGNMENTS)
    finish_move(stage, controller)
    assert state_of(controller).replicas == (3,)
    put(stage, REASSIGNMENTS, moves(("orders", 0, [1])))
    settle(stage, controller)
    assert state_of(controller).adding == (1,)


def test_a_new_controller_goes_on_with_the_nodes(stage: Stage, controller: Member) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3]), ("orders", 1, [2])))
    settle(stage, controller)
    second = stage.members[1]
    second.driver.campaign()
    settle(stage, second)
    controller.session.client.expire()
    controller.driver.stop()
    put(stage, ELECTIONS, elections(("orders", 0)))
    put(stage, paths.delete_topic("nothing"), b"")
    settle(stage, second)

    assert second.driver.is_active
    assert content(stage, ELECTIONS) is None
    assert paths.delete_topic("nothing") not in stage.tree.nodes
    assert content(stage, REASSIGNMENTS) == moves(("orders", 0, [3]))
    finish_move(stage, second)
    assert state_of(second).replicas == (3,)
    assert content(stage, REASSIGNMENTS) is None


def test_a_controller_that_is_replaced_unknowingly_removes_no_node(
    stage: Stage, controller: Member
) -> None:
    controller.session.pending.clear()
    stage.tree.set(paths.CONTROLLER_EPOCH, b"2", -1)  # by another controller
    put(stage, paths.delete_topic("orders"), b"")
    put(stage, ELECTIONS, elections())
    settle(stage, controller)
    assert paths.delete_topic("orders") in stage.tree.nodes
    assert content(stage, ELECTIONS) is not None


def test_a_node_of_elections_lets_preferred_replicas_lead(stage: Stage, controller: Member) -> None:
    swapped = [(each, (BrokerId(2), BrokerId(1))) for each in (ORDERS_0,)]
    controller.requests.alter_reassignments(
        swapped, may_change_factor=True, timeout_ms=1_000, on_done=lambda *_: None
    )
    settle(stage, controller)
    assert state_of(controller).leader == 1

    put(stage, ELECTIONS, elections(("orders", 0), ("orders", 1), ("no", 0), ("orders", 0)))
    settle(stage, controller)

    assert state_of(controller).leader == 2
    assert content(stage, ELECTIONS) is None


def test_nodes_delete_topics(stage: Stage, controller: Member) -> None:
    for name in ("orders", "nothing"):
        put(stage, paths.delete_topic(name), b"whatever")
    settle(stage, controller)
    assert controller.driver.controller is not None
    assert controller.driver.controller.state.topics == {}
    assert stage.tree.children(paths.DELETE_TOPICS) == []


def test_nodes_delete_no_topic_where_deletion_is_disabled(
    stage: Stage, controller: Member, caplog: pytest.LogCaptureFixture
) -> None:
    stage.may_delete_topics = False
    put(stage, paths.delete_topic("orders"), b"")
    settle(stage, controller)
    assert controller.driver.controller is not None
    assert list(controller.driver.controller.state.topics) == ["orders"]
    assert stage.tree.children(paths.DELETE_TOPICS) == []
    assert "orders: delete.topic.enable is false" in caplog.text


@pytest.mark.parametrize("path", [REASSIGNMENTS, ELECTIONS])
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        {},
        {"version": 2, "partitions": []},
        {"version": 1, "partitions": {"orders": 0}},
        {"version": 1, "partitions": [{"topic": "orders"}]},
        {"version": 1, "partitions": [{"topic": 7, "partition": 0, "replicas": [3]}]},
        {"version": 1, "partitions": [{"topic": "orders", "partition": 2**31, "replicas": [3]}]},
        {"version": 1, "partitions": [{"topic": "orders", "partition": None, "replicas": [3]}]},
    ],
)
def test_a_node_that_cannot_be_read_is_removed_with_one_line(
    stage: Stage,
    controller: Member,
    caplog: pytest.LogCaptureFixture,
    path: str,
    garbage: object,
) -> None:
    put(stage, path, garbage)
    settle(stage, controller)
    assert path not in stage.tree.nodes
    assert len(caplog.messages) == 1
    assert f"removed {path}, which cannot be read" in caplog.text

    wanted = moves if path == REASSIGNMENTS else elections
    put(stage, path, wanted())  # the next one is looked at
    settle(stage, controller)
    assert path not in stage.tree.nodes
    assert controller.driver.is_active


def test_replicas_that_are_no_list_make_a_node_unreadable(
    stage: Stage, controller: Member, caplog: pytest.LogCaptureFixture
) -> None:
    for replicas in (None, 3, "x", [None], [2**40], [[1]]):
        put(stage, REASSIGNMENTS, moves(("orders", 0, replicas)))  # type: ignore[arg-type]
        settle(stage, controller)
        assert REASSIGNMENTS not in stage.tree.nodes
    assert len(caplog.messages) == 6
    assert state_of(controller).replicas == (1, 2)


def test_a_full_disk_of_the_registry_only_delays_the_removal_of_names(
    stage: Stage, controller: Member
) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [3]), ("orders", 1, [3])))
    settle(stage, controller)
    finish = state_of(controller)
    propose(controller, list(finish.replicas), finish.partition_epoch)
    while content(stage, REASSIGNMENTS) and len(state_of(controller).replicas) > 1:
        controller.session.work(1)
        stage.loop.run_once(max_wait_ms=0)
    stage.tree.is_full = True
    settle(stage, controller)
    assert len(content(stage, REASSIGNMENTS)["partitions"]) == 2
    stage.tree.is_full = False
    finish_move(stage, controller, 1)
    assert content(stage, REASSIGNMENTS) is None


def test_a_move_that_a_full_registry_keeps_from_its_end_ends_when_there_is_room(
    stage: Stage, controller: Member
) -> None:
    put(stage, REASSIGNMENTS, moves(("orders", 0, [2, 3])))
    settle(stage, controller)
    propose(controller, [1, 2, 3], state_of(controller).partition_epoch)
    while not controller.session.pending:
        stage.loop.run_once(max_wait_ms=0)
    controller.session.work()  # the in-sync replicas, and nothing after them
    stage.tree.is_full = True
    settle(stage, controller)
    assert state_of(controller).isr == (1, 2, 3)
    assert state_of(controller).replicas == (2, 3, 1)
    stage.tree.is_full = False
    stage.pass_time(RETRY_MS)
    settle(stage, controller)
    assert state_of(controller).replicas == (2, 3)
    assert content(stage, REASSIGNMENTS) is None
