"""Configs of groups follow the registry: over changes, nonsense, failures and new sessions."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import broker_settings
from cluster.coordinator.groups.consumer.requests import ConsumerTimings
from cluster.coordinator.registry.documents import paths
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
PATH = "/config/groups/g"
DONE = Outcome(ErrorCode.none)
DEFAULTS = ConsumerTimings(45_000, 5_000)


class Stage:
    """A broker's configs of groups, and another client of the registry."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = FakeTree()
        self.other: Any = FakeClient(self.tree)
        store_of(self.other).brokers.prepare()
        self.session = FakeSession(self.tree, self.loop.call_from_thread)
        store: Any = self.session
        live = LiveSettings(broker_settings({}))
        self.configs = GroupConfigs(store, self.loop, self.clock, live)
        self.configs.follower.load_at_start()

    def write(self, document: bytes) -> None:
        """Write the record and a change node, like a tool of Kafka."""
        self.other.ensure_path(PATH)
        self.other.set(PATH, document)
        self.other.create(paths.CONFIG_CHANGE_PREFIX, b"{}", sequence=True)

    def alter(self, **texts: str) -> list[Outcome]:
        told: list[Outcome] = []
        values = {key.replace("_", "."): text for key, text in texts.items()}
        self.configs.alter("g", lambda before: {**before, **values}, told.append, is_dry=False)
        return told

    def settle(self) -> None:
        while self.loop.has_calls or self.session.pending:
            self.session.work()
            self.loop.run_once(max_wait_ms=0)


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


def document(**texts: str) -> bytes:
    config = {key.replace("_", "."): text for key, text in texts.items()}
    return json.dumps({"version": 1, "config": config}).encode()


def test_changes_are_followed_while_another_one_is_read(stage: Stage) -> None:
    stage.write(document(consumer_session_timeout_ms="50000"))
    stage.loop.run_once(max_wait_ms=0)  # reading is submitted, and not carried out
    stage.write(document(consumer_session_timeout_ms="51000"))
    stage.settle()
    assert stage.configs.timings("g") == ConsumerTimings(51_000, 5_000)
    stage.write(document())
    stage.settle()
    assert stage.configs.timings("g") == DEFAULTS
    assert stage.configs.group_ids() == []


@pytest.mark.parametrize("text", [b"{", b'{"version":1}', b""])
def test_malformed_record_is_ignored(stage: Stage, text: bytes) -> None:
    stage.write(text)
    stage.settle()
    assert stage.configs.timings("g") == DEFAULTS


def test_failed_read_is_retried(stage: Stage) -> None:
    stage.session.client.expire()
    stage.write(document(consumer_session_timeout_ms="50000"))
    stage.configs.follower.on_new_session()
    stage.settle()
    assert stage.configs.timings("g") == DEFAULTS
    stage.session.client.begin_again()
    stage.clock.pass_time(500)
    stage.loop.run_once(max_wait_ms=0)
    stage.settle()
    assert stage.configs.timings("g") == ConsumerTimings(50_000, 5_000)
    stage.write(document(consumer_session_timeout_ms="51000"))
    stage.settle()
    assert stage.configs.timings("g") == ConsumerTimings(51_000, 5_000)


def test_two_concurrent_changes_apply_before_their_answers(stage: Stage) -> None:
    told = [
        stage.alter(consumer_session_timeout_ms="50000"),
        stage.alter(consumer_heartbeat_interval_ms="6000"),
    ]
    while not all(told):
        stage.session.work(1)
        stage.loop.run_once(max_wait_ms=0)
    assert told == [[DONE], [DONE]]
    assert stage.configs.timings("g") == ConsumerTimings(50_000, 6_000)
    stored = json.loads(stage.other.get(PATH)[0])
    assert stored == {"version": 1, "config": {SESSION: "50000", INTERVAL: "6000"}}
    changes = stage.other.get_children(paths.CONFIG_CHANGES)
    documents = [json.loads(stage.other.get(f"{paths.CONFIG_CHANGES}/{n}")[0]) for n in changes]
    assert {each["entity_path"] for each in documents} == {"groups/g"}


def test_refused_change_is_not_written(stage: Stage) -> None:
    told = stage.alter(consumer_session_timeout_ms="1")
    stage.settle()
    assert [each.code for each in told] == [ErrorCode.invalid_config]
    assert PATH not in stage.tree.nodes


def test_unreachable_registry_is_reported(stage: Stage) -> None:
    stage.session.client.expire()
    told = stage.alter(consumer_session_timeout_ms="50000")
    stage.settle()
    assert [each.code for each in told] == [ErrorCode.unknown_server_error]
