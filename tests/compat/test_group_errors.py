"""Kafka's broker and our group coordinator answer the same requests with the same errors."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from cluster.coordinator.groups.requests import LeavingMember
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.error_codes import ErrorCode
from tests.compat.kafka_process import KafkaProcess, require_kafka
from tests.compat.zookeeper_server import HOST, free_port
from tests.integration.registry_process import RegistryProcess
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import (
    commit_offsets,
    committed_in,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join_group,
    lead_offsets_topic,
    leave_group,
    list_groups,
    sync_group,
)
from tests.support.group_stage import GroupStage, subscription
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import WireClient, metadata_request, request
from tests.support.running_cluster import Address
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

SESSION_MS = 60_000
REBALANCE_MS = 300_000
STATES = ["Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


class Side(Protocol):
    """What takes requests about one group; the errors are what is compared."""

    def join(self, member_id: str = "", **others: Any) -> tuple[ErrorCode, str, int]: ...
    def begin_join(self, **others: Any) -> None: ...
    def sync(
        self, member_id: str, generation: int, instance: str | None = None, **names: str
    ) -> ErrorCode: ...
    def heartbeat(
        self, member_id: str, generation: int, instance: str | None = None
    ) -> ErrorCode: ...
    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]: ...
    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str = "",
    ) -> ErrorCode: ...
    def delete_offsets(self, *topics: str) -> list[ErrorCode]: ...
    def delete_group(self) -> ErrorCode: ...
    def state(self) -> str: ...


class OurSide:
    """A shard; of the tests' stage, all groups have one name."""

    def __init__(self) -> None:
        self._stage = GroupStage(GroupOptions(initial_rebalance_delay_ms=0)).loaded()

    def join(self, member_id: str = "", **others: Any) -> tuple[ErrorCode, str, int]:
        token = self._stage.join(member_id, **_times(others))
        self._stage.pass_time(0)
        reply = self._stage.joined(token)
        return reply.error, reply.member_id, reply.generation_id

    def begin_join(self, **others: Any) -> None:
        self._stage.join(**_times(others))

    def sync(
        self, member_id: str, generation: int, instance: str | None = None, **names: str
    ) -> ErrorCode:
        assignments = {member_id: b"all"}
        names = {"protocol_type": "consumer", "protocol_name": "range"} | names
        token = self._stage.sync(member_id, generation, assignments, instance=instance, **names)
        return self._stage.synced(token).error

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self._stage.heartbeat(member_id, generation, instance)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        token = self._stage.leave(*(LeavingMember(*each) for each in members))
        return [each.error for each in self._stage.answers[token].members]

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str = "",
    ) -> ErrorCode:
        token = self._stage.commit(
            None, member_id, generation, instance=instance, metadata=metadata
        )
        (error,) = self._stage.commit_errors(token)
        return error

    def delete_offsets(self, *topics: str) -> list[ErrorCode]:
        reply = self._stage.answers[self._stage.delete_offsets(*((each, 0) for each in topics))]
        return [each.error for each in reply.partitions] or [reply.error]

    def delete_group(self) -> ErrorCode:
        (deleted,) = self._stage.answers[self._stage.delete_groups("orders-readers")].groups
        error: ErrorCode = deleted.error
        return error

    def state(self) -> str:
        return self._stage.state()


def _times(others: dict[str, Any]) -> dict[str, Any]:
    return {"session_ms": SESSION_MS, "rebalance_ms": REBALANCE_MS} | others


class KafkaSide:
    """One group of a Kafka broker."""

    def __init__(self, address: Address, group: str, stack: ExitStack) -> None:
        self._new_client: Callable[[], WireClient] = lambda: stack.enter_context(
            WireClient(address)
        )
        self._client = self._new_client()
        self._group = group
        for topic in ("orders", "bills"):
            self._client.call(metadata_request(topic, auto_create=True))
        self._client.call(request(10, 3, key=group, key_type=0))
        wait_until(
            lambda: self.heartbeat("nobody", 0) is ErrorCode.unknown_member_id, "coordinator", 60
        )
        wait_until(lambda: self.commit("nobody", 1) is ErrorCode.illegal_generation, "topics", 60)

    def _join_request(self, member_id: str, **others: Any) -> Any:
        fields = _times(others)
        offers = fields.get("offers")
        names = ["range"] if offers is None else [each.name for each in offers]
        return request(
            11,
            7,
            group_id=self._group,
            session_timeout=fields["session_ms"],
            rebalance_timeout=fields["rebalance_ms"],
            member_id=member_id,
            group_instance_id=fields.get("instance"),
            protocol_type=fields.get("protocol_type", "consumer"),
            protocols=[{"name": each, "metadata": subscription("orders")} for each in names],
        )

    def join(self, member_id: str = "", **others: Any) -> tuple[ErrorCode, str, int]:
        reply = self._client.call(self._join_request(member_id, **others))
        return ErrorCode(reply.error_code), reply.member_id, reply.generation_id

    def begin_join(self, **others: Any) -> None:
        self._new_client().send(self._join_request("", **others))
        wait_until(lambda: self.state() == "PreparingRebalance", "rebalance", 30)

    def sync(
        self, member_id: str, generation: int, instance: str | None = None, **names: str
    ) -> ErrorCode:
        message = request(
            14,
            5,
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[{"member_id": member_id, "assignment": b"all"}],
            **({"protocol_type": "consumer", "protocol_name": "range"} | names),
        )
        return ErrorCode(self._client.call(message).error_code)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        message = request(
            12,
            4,
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return ErrorCode(self._client.call(message).error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        leaving = [
            {"member_id": member_id, "group_instance_id": instance}
            for member_id, instance in members
        ]
        reply = self._client.call(request(13, 4, group_id=self._group, members=leaving))
        assert reply.error_code == 0
        return [ErrorCode(each.error_code) for each in reply.members]

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str = "",
    ) -> ErrorCode:
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        message = request(
            8,
            8,
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[{"name": "orders", "partitions": [partition]}],
        )
        reply = self._client.call(message)
        return ErrorCode(reply.topics[0].partitions[0].error_code)

    def delete_offsets(self, *topics: str) -> list[ErrorCode]:
        named = [{"name": each, "partitions": [{"partition_index": 0}]} for each in topics]
        reply = self._client.call(request(47, 0, group_id=self._group, topics=named))
        found = {each.name: each.partitions[0].error_code for each in reply.topics}
        errors = [found[each] for each in topics if each in found] or [reply.error_code]
        return [ErrorCode(each) for each in errors]

    def delete_group(self) -> ErrorCode:
        reply = self._client.call(request(42, 2, groups_names=[self._group]))
        return ErrorCode(reply.results[0].error_code)

    def state(self) -> str:
        reply = self._client.call(
            request(15, 5, groups=[self._group], include_authorized_operations=False)
        )
        state: str = reply.groups[0].group_state
        return state


# ---------------------------------------------------------------------- what is asked


def bring_to(side: Side, state: str) -> tuple[str, int]:
    """A group whose static leader is `s-1`, in this state; its member id and generation."""
    error, member_id, generation = side.join(instance="s-1")
    assert error is ErrorCode.none
    assert generation == 1
    if state in ("Dead", "Empty"):
        side.leave((member_id, "s-1"))
    if state == "Dead":
        side.delete_group()
    if state in ("Stable", "PreparingRebalance"):
        side.sync(member_id, generation)
    if state == "PreparingRebalance":
        side.begin_join(instance="s-2")
    assert side.state() == state
    return member_id, generation


def ask(side: Side, state: str) -> Iterator[tuple[str, Any]]:
    """What each request is answered with: first those that change nothing, as far as they do."""
    member_id, generation = bring_to(side, state)
    for instance in (None, "s-1", "s-9"):
        for who in (member_id, "nobody", ""):
            for number in (generation, generation - 1, generation + 1, -1):
                about = f"{instance} {'me' if who == member_id else who!r} {number}"
                yield f"heartbeat {about}", side.heartbeat(who, number, instance)
                if not (who == member_id and number == generation and instance != "s-9"):
                    yield f"sync {about}", side.sync(who, number, instance)
                    if state not in ("Dead", "Empty") or number >= 0:
                        yield f"commit {about}", side.commit(who, number, instance)
    yield "sync type", side.sync(member_id, generation, "s-1", protocol_type="connect")
    yield "sync name", side.sync(member_id, generation, "s-1", protocol_name="sticky")
    changes: dict[str, dict[str, Any]] = {
        "stranger": {"member_id": "nobody"},
        "fenced": {"member_id": "nobody", "instance": "s-1"},
        "unknown instance": {"member_id": member_id, "instance": "s-9"},
        "short session": {"session_ms": 5_999},
        "long session": {"session_ms": 1_800_001},
    }
    for name, change in changes.items():
        yield f"join {name}", side.join(**({"member_id": member_id} | change))[0]
    if state not in ("Dead", "Empty"):
        yield "join type", side.join(protocol_type="connect")[0]
    yield "no protocols", side.join(member_id, instance="s-1", offers=())[0]
    strangers = [("nobody", None), ("nobody", "s-1"), (member_id, "s-9"), ("", "s-9"), ("", None)]
    yield "leave", side.leave(*strangers)
    yield "delete offsets", side.delete_offsets("orders", "bills")
    yield "state", side.state()
    if state not in ("Dead", "Empty"):
        yield "delete group", side.delete_group()
    yield "own commit", side.commit(member_id, generation, "s-1")
    yield "long metadata", side.commit(member_id, generation, "s-1", metadata="x" * 4_097)
    yield "own sync", side.sync(member_id, generation, "s-1")
    yield "own leave", side.leave((member_id, "s-1"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    require_kafka()
    directory: Path = tmp_path_factory.mktemp("kafka")
    with RegistryProcess(directory / "registry", tick_time_ms=2_000) as registry:
        address = (HOST, free_port())
        with KafkaProcess(
            directory / "kafka",
            broker_id=7,
            address=address,
            registry=f"{HOST}:{registry.port}/kafka",
        ):
            yield address


@pytest.mark.parametrize("state", STATES)
def test_errors_equal_kafkas_in_every_group_state(kafka: Address, state: str) -> None:
    with ExitStack() as stack:
        theirs = dict(ask(KafkaSide(kafka, f"group-{state}", stack), state))
    ours = dict(ask(OurSide(), state))
    differing = {what: (ours[what], theirs[what]) for what in theirs if ours[what] != theirs[what]}
    assert differing == {}
    assert len(theirs) > 100


def dynamic_member(side: Side) -> Iterator[tuple[str, Any]]:
    """One that is given its id, joins again as the leader, and leaves with the id unused."""
    error, member_id, generation = side.join()
    yield "first", (error, generation)
    yield "unused id: heartbeat", side.heartbeat(member_id, -1)
    yield "unused id: sync", side.sync(member_id, -1)
    error, same_id, generation = side.join(member_id)
    yield "second", (error, same_id == member_id, generation)
    yield "again before the assignment", side.join(member_id)[::2]
    yield "sync", side.sync(member_id, 1)
    yield "again as the leader", side.join(member_id)[::2]
    yield "state", side.state()
    yield "sync of the generation before", side.sync(member_id, 1)
    yield "sync without a protocol that is known", side.sync(member_id, 2, protocol_name="x")
    yield "commit before the assignment", side.commit(member_id, 2)
    yield "assigned", side.sync(member_id, 2)
    yield "commit", side.commit(member_id, 2)
    yield "leaves", side.leave((member_id, None), (member_id, None))
    yield "empty", side.state()
    yield "commit of a member that left", side.commit(member_id, 2)
    yield "commit of nobody", side.commit()
    _, unused, _ = side.join()
    yield "leaves with the id only", side.leave((unused, None), (unused, None))
    _, unused, _ = side.join()
    yield "state with an id only", side.state()
    yield "deleted with an id only", side.delete_group()
    yield "state after it", side.state()
    yield "id of a group that is gone", side.join(unused)[0]


def static_member(side: Side) -> Iterator[tuple[str, Any]]:
    """One that comes back: in a stable group, before the assignment, in an empty group."""
    _, first, _ = side.join(instance="s-1")
    yield "back before the assignment", (back := side.join(instance="s-1"))[::2]
    second = back[1]
    yield "the first is fenced", side.sync(first, 2, "s-1")
    yield "the first as a dynamic one", side.sync(first, 2)
    yield "assigned", side.sync(second, 2, "s-1")
    yield "back", (back := side.join(instance="s-1"))[::2]
    third = back[1]
    yield "state", side.state()
    yield "ids differ", len({first, second, third})
    for name, member_id in (("second", second), ("third", third)):
        yield f"{name} heartbeat", side.heartbeat(member_id, 2, "s-1")
        yield f"{name} heartbeat without instance", side.heartbeat(member_id, 2)
        yield f"{name} sync", side.sync(member_id, 2, "s-1")
        yield f"{name} commit", side.commit(member_id, 2, "s-1")
        yield f"{name} leaves", side.leave((member_id, "s-9"))
    yield "second joins", side.join(second, instance="s-1")[0]
    yield "removed by an administrator", side.leave(("", "s-1"), ("", "s-1"))
    yield "empty", side.state()
    yield "third heartbeat after it", side.heartbeat(third, 2, "s-1")
    yield "third joins after it", side.join(third, instance="s-1")[0]
    yield "comes anew", side.join(instance="s-1")[::2]


@pytest.mark.parametrize("story", [dynamic_member, static_member])
def test_answers_to_a_member_equal_kafkas(
    kafka: Address, story: Callable[[Side], Iterator[tuple[str, Any]]]
) -> None:
    with ExitStack() as stack:
        theirs = dict(story(KafkaSide(kafka, story.__name__, stack)))
    assert dict(story(OurSide())) == theirs


# ---------------------------------------------------------------------- requests of nobody

T0 = ("t", 0)


def requests_of_nobody() -> Iterator[tuple[str, Any]]:
    """Requests of administrators and of consumers without membership, some with invalid values."""
    odd = {"empty": "", "long": "g" * 300, "unknown": "nobody knows"}
    for name, group in {"known": "g", **odd}.items():
        yield f"commit {name}", commit_offsets(group, {T0: 5}, version=9)
        yield f"fetch {name}", fetch_offsets(group, [T0, ("t", 9), ("nowhere", 0)], version=9)
        yield f"join {name}", join_group(group, "nobody", version=9)
        yield f"sync {name}", sync_group(group, "nobody", 1)
        yield f"heartbeat {name}", heartbeat(group, "nobody", 1)
        yield f"leave {name}", leave_group(group, "nobody")
    places = {
        "topic": ("nowhere", 0),
        "partition": ("t", 77),
        "negative": ("t", -1),
        "name": ("", 0),
    }
    for name, place in places.items():
        yield f"commit {name}", commit_offsets("g", {place: 5, T0: 6}, version=9)
    for offset in (-1, -5, 2**63 - 1, -(2**63)):
        yield f"commit {offset}", commit_offsets("g", {T0: offset}, version=9)
        yield f"fetch {offset}", fetch_offsets("g", None, version=9)
    for metadata in (None, "x" * 4_096, "x" * 4_097):
        yield f"metadata {metadata}", commit_offsets("g", {T0: 5}, metadata=metadata, version=9)
    for member, number in (("m", -1), ("m", 3), ("", 3), ("", -7)):
        claims: dict[str, Any] = {"member": member, "generation": number}
        for group in ("g", "new"):
            about = f"commit {group} {member} {number}"
            yield about, commit_offsets(group, {T0: 5}, version=9, **claims)
    for version in range(2, 9):
        yield f"commit {version}", commit_offsets("g", {T0: 5, ("nowhere", 0): 5}, version=version)
        yield f"fetch all {version}", fetch_offsets("g", None, version=version)
    for version in range(6):
        names = ["g", *odd.values()]
        yield f"describe {version}", describe_groups(*names, version=version)
    yield "operations", describe_groups("g", "nobody knows", operations=True, version=5)
    for states in ((), ("empty",), ("Foo",), ("Empty", "Stable")):
        for types in ((), ("classic",), ("Consumer",), ("foo",)):
            yield f"list {states} {types}", list_groups(states, types)
    yield "delete offsets", delete_offsets("g", T0, ("t", 9), ("nowhere", 0))
    yield "delete unknown offsets", delete_offsets("nobody knows", T0, ("nowhere", 0))
    yield "delete offsets of nobody", delete_offsets("", T0)
    for version in range(3):
        yield f"delete {version}", delete_groups("nobody knows", "", version=version)
    for version in range(7):
        yield f"find {version}", find_coordinator("g", "", version=version)
    yield "short session", join_group("g", session_ms=5_999)
    yield "no protocol type", join_group("g", protocol_type="")
    yield "sync without protocol", sync_group("g", "m", 1, protocol=None)


def facts_of(answer: Any) -> list[str]:
    """Codes, offsets, states and operations, wherever they stand, in no order; of a list, what
    concerns this test's groups."""
    if type(answer).__name__ == "ListGroupsResponse":
        known = {"g", "new", "", "g" * 300}
        listed = tuple(each for each in answer.groups if each.group_id in known)
        answer = replace(answer, groups=listed)
    names = "error_code|committed_offset|group_state|group_id|authorized_operations"
    return sorted(re.findall(rf"(?:{names})=[^,)]*", repr(answer)))


def test_answers_to_unknown_members_equal_kafkas(kafka: Address, tmp_path: Path) -> None:
    with WireClient(kafka) as client:
        client.call(metadata_request("t", auto_create=True))
        client.call(find_coordinator("g", version=3))
        first = commit_offsets("g", {T0: 1}, version=9)
        wait_until(lambda: committed_in(client.call(first)) == [0], "the coordinator", 60)
        theirs = {name: facts_of(client.call(asked)) for name, asked in requests_of_nobody()}
    # Since 4.1 those on a group's configs are among them (`AclEntry.supportedOperations`).
    theirs["operations"] = [
        fact.replace("operations=328", "operations=3400") for fact in theirs["operations"]
    ]
    with HandlerStage(tmp_path / "data") as stage:
        stage.update(a_topic("t", a_partition([BROKER])))
        lead_offsets_topic(stage)
        connection = stage.connect()
        connection.call(first)
        ours = {name: facts_of(connection.call(asked)) for name, asked in requests_of_nobody()}
    differing = {what: (ours[what], theirs[what]) for what in theirs if ours[what] != theirs[what]}
    assert differing == {}
