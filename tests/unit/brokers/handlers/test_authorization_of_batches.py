"""Authorization of requests about several topics or groups: each has its own answer, and one that
is denied is neither changed nor disclosed. The cases are those of `authorization_cases`.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.model.acls import ResourceType
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.protocol.api import ApiKey
from cluster.protocol.peer.control import AlterTopicConfigs, TopicOutcome, TopicOutcomes
from tests.support.authorization_cases import (
    AUTHORIZATION_ERRORS,
    CASES,
    GROUP,
    NEW_TOPIC,
    TOPIC,
    Case,
    codes_in,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import (
    commit_offsets,
    fetch_offsets,
    fetched_in,
    join_group,
    lead_offsets_topic,
    topic_id,
)
from tests.support.guarded_broker import SETTINGS, Guarded
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, HandlerStage, StageConnection
from tests.support.kafka_wire import produce_to

HIDDEN: Final = "hidden"
"""A topic, and a group, that the client has no right to."""
NOTHING: Final = "nothing"
"""Neither a topic nor a group has that name."""
SECRET: Final = b"what nobody else may read"
WHOLE: Final = {ApiKey.CONSUMER_GROUP_HEARTBEAT}
"""One answer for all topics that it names."""

Transform = Callable[[Any], Any]


def in_batches(case: Case) -> Iterator[tuple[Case, str, ErrorCode]]:
    """The case with each of its lists widened, with the name of the allowed item and the error of
    the denied items.
    """
    if case.key in WHOLE or not dataclasses.is_dataclass(case.message):
        return
    for right, name, error in case.needs:
        if right.resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
            continue
        widened = widen(case.message, name)
        if widened != case.message:
            yield dataclasses.replace(case, message=widened), name, error


def mentions(part: Any, name: str) -> bool:
    """Whether a message contains the name, or the id of the topic with that name."""
    if isinstance(part, tuple):
        return any(mentions(each, name) for each in part)
    if dataclasses.is_dataclass(part):
        return any(mentions(getattr(part, one.name), name) for one in dataclasses.fields(part))
    return part in (name, topic_id(name))


def renamed(part: Any, old: str, new: str) -> Any:
    """A part of a message with one name, or topic id, replaced by another."""
    if isinstance(part, tuple):
        return tuple(renamed(each, old, new) for each in part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        changed = {
            one.name: renamed(getattr(part, one.name), old, new) for one in dataclasses.fields(part)
        }
        return dataclasses.replace(part, **changed)
    return {old: new, topic_id(old): topic_id(new)}.get(part, part) if _is_name(part) else part


def _is_name(part: Any) -> bool:
    return isinstance(part, str | type(topic_id(TOPIC)))


def holds_list(part: Any, name: str) -> bool:
    """Whether the part contains a list with that name in it."""
    if isinstance(part, tuple):
        return mentions(part, name)
    if dataclasses.is_dataclass(part):
        return any(holds_list(getattr(part, one.name), name) for one in dataclasses.fields(part))
    return False


def widen(part: Any, name: str) -> Any:
    """The message with a hidden and a nonexistent item around each list item of that name."""
    if isinstance(part, tuple):
        found: list[Any] = []
        for each in part:
            if holds_list(each, name):
                found.append(widen(each, name))
            elif mentions(each, name):
                found += [renamed(each, name, HIDDEN), each, renamed(each, name, NOTHING)]
            else:
                found.append(each)
        return tuple(found)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        changed = {
            one.name: widen(getattr(part, one.name), name) for one in dataclasses.fields(part)
        }
        return dataclasses.replace(part, **changed)
    return part


def items(part: Any, name: str) -> list[Any]:
    """The list items in an answer that are about that name."""
    if isinstance(part, tuple):
        return [
            found
            for each in part
            for found in (
                items(each, name)
                if holds_list(each, name)
                else [each]
                if mentions(each, name)
                else []
            )
        ]
    if dataclasses.is_dataclass(part):
        fields = dataclasses.fields(part)
        return [found for one in fields for found in items(getattr(part, one.name), name)]
    return []


def answer_of(stage: HandlerStage, client: StageConnection, message: Any) -> tuple[Any, list[Any]]:
    """The answer, and the requests to the controller."""
    client.send(message)
    asked = []
    for _ in range(20):
        stage.store.work()
        stage.turn()
        while stage.controller.asked:
            one = stage.controller.asked.pop(0)
            asked.append(one.subjects)
            names = [name for name in (TOPIC, NEW_TOPIC) if name in repr(one.subjects)]
            outcomes = {name: Outcome(ErrorCode.none) for name in names}
            states = {name: a_topic(name, a_partition([BROKER])) for name in names}
            match one.operation:
                case "create_topics":
                    one.on_done(outcomes, states)
                case "delete_topics":
                    one.on_done([(*each, Outcome(ErrorCode.none)) for each in one.subjects])
                case _:
                    one.on_done(outcomes)
        for message_to_it in stage.link.take():
            asked.append(message_to_it.request)
            if isinstance(message_to_it.request, AlterTopicConfigs):
                topics = [each.topic for each in message_to_it.request.alterations]
            else:
                topics = message_to_it.request.names
            done = [TopicOutcome(topic, ErrorCode.none, None) for topic in topics]
            message_to_it.on_reply(TopicOutcomes(done))
        if not client.is_waiting:
            return client.receive(), asked
        stage.pass_time(1_000)
    raise AssertionError("it is not answered")


def stored(stage: HandlerStage) -> dict[str, tuple[bytes, int]]:
    """The registry's data about denied items, and how often it was written."""
    nodes = stage.store.client.tree.nodes
    return {
        path: (node.document, node.version)
        for path, node in nodes.items()
        if HIDDEN in f"{path}{node.document!r}" or NOTHING in f"{path}{node.document!r}"
    }


BATCHES: Final = [one for case in CASES for one in in_batches(case)]


def test_every_api_with_lists_is_covered() -> None:
    assert {ApiKey(case.key) for case, _, _ in BATCHES} >= {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }


@pytest.mark.parametrize(
    ("case", "allowed", "error"),
    BATCHES,
    ids=[f"{case.name}, several of {name}" for case, name, _ in BATCHES],
)
def test_denied_item_gets_its_own_error_and_is_unchanged(
    tmp_path: Path, case: Case, allowed: str, error: ErrorCode
) -> None:
    with HandlerStage(tmp_path / "data", SETTINGS) as stage:
        topics = (TOPIC, HIDDEN)
        stage.update(*(a_topic(name, a_partition([BROKER])) for name in topics))
        lead_offsets_topic(stage)
        guarded = Guarded(stage)
        admin = guarded.client("admin")
        everything = {(name, 0): 1 for name in topics}
        assert codes_in(admin.call(commit_offsets(GROUP, everything, version=9))) == set()
        assert codes_in(admin.call(produce_to((HIDDEN, 0, a_batch(SECRET)), acks=1))) == set()
        admin.call(join_group(HIDDEN))
        guarded.grant(*((right, name) for right, name, _ in case.needs))
        before = stored(stage)

        answer, asked = answer_of(stage, guarded.client(), case.message)

        (hidden,), (nothing,) = items(answer, HIDDEN), items(answer, NOTHING)
        own = items(answer, allowed)
        assert own
        assert codes_in(tuple(own)) & AUTHORIZATION_ERRORS == set()
        assert codes_in((hidden,)) == {error}
        if mentions(hidden, HIDDEN) and HIDDEN in repr(hidden):  # by its name
            assert renamed(hidden, HIDDEN, NOTHING) == nothing
        else:
            assert codes_in((nothing,)) == {ErrorCode.unknown_topic_id}
        assert SECRET not in repr(answer).encode()
        assert HIDDEN not in repr(asked)
        assert NOTHING not in repr(asked)
        assert stored(stage) == before
        assert stage.partition(HIDDEN).log.log_end_offset == 1
        code, offsets = fetched_in(admin.call(fetch_offsets(GROUP, [(HIDDEN, 0)], version=9)))
        if case.key != ApiKey.DELETE_GROUPS:
            assert (code, offsets) == (0, {(HIDDEN, 0): (1, 0)})
