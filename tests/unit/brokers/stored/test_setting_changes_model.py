"""Two brokers, clients of both and another tool change the same records in any order."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.config.dynamic import CLUSTER_WIDE, OWN, applied, texts_at
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import broker_settings
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of

KEYS = ("log.segment.bytes", "log.retention.ms", "max.connections", "broker.id", "nope")
VALUES = ("14", "5000", "-1", "soon")
DEFAULT_PATH = "/config/brokers/<default>"

brokers = st.sampled_from([0, 1])
levels = st.sampled_from([OWN, CLUSTER_WIDE])
texts = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)


class Broker:
    """One broker's settings and its session."""

    def __init__(self, number: int, tree: FakeTree, loop: EventLoop, clock: FakeClock) -> None:
        self.own_path = f"/config/brokers/{number}"
        self.session = FakeSession(tree, loop.call_from_thread)
        self.live = LiveSettings(broker_settings({"broker.id": str(number)}))
        self.changes = SettingChanges(
            BrokerId(number),
            self.session,  # type: ignore[arg-type]  # stands in for the real one
            loop,
            clock,
            self.live,
        )
        self.changes.load_at_start()


class SettingsOfTwoBrokers(RuleBasedStateMachine):
    """Whatever happens in between: in the end each broker's settings are what is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = FakeTree()
        self.tool: Any = FakeClient(self.tree)
        store_of(self.tool).brokers.prepare()
        self.brokers = [Broker(number, self.tree, self.loop, self.clock) for number in (0, 1)]
        self.asked = 0
        self.told: list[Outcome] = []

    @rule(broker=brokers, level=levels, given=texts, is_whole=st.booleans())
    def a_client_asks(self, broker: int, level: Any, given: dict[str, str], is_whole: bool) -> None:
        self.asked += 1
        self.brokers[broker].changes.alter(
            level,
            lambda before: given if is_whole else {**before, **given},
            self.told.append,
            is_dry=False,
        )

    @rule(broker=brokers, level=levels, given=texts)
    def a_tool_writes(self, broker: int, level: Any, given: dict[str, str]) -> None:
        path = self.brokers[broker].own_path if level is OWN else DEFAULT_PATH
        self.tool.ensure_path(path)
        self.tool.set(path, json.dumps({"version": 1, "config": given}).encode())

    @rule(broker=brokers)
    def a_tool_deletes(self, broker: int) -> None:
        path = self.brokers[broker].own_path
        if self.tool.exists(path):
            self.tool.delete(path)

    @rule(broker=brokers, count=st.integers(1, 3))
    def the_registry_answers(self, broker: int, count: int) -> None:
        self.brokers[broker].session.work(count)

    @rule()
    def the_loop_turns(self) -> None:
        self.loop.run_once(max_wait_ms=0)

    @rule(broker=brokers)
    def a_session_expires_and_begins_again(self, broker: int) -> None:
        self.brokers[broker].session.client.begin_again()
        self.brokers[broker].changes.follower.on_new_session()

    @rule()
    def everything_settles(self) -> None:
        while self.loop.has_calls or any(each.session.pending for each in self.brokers):
            for each in self.brokers:
                each.session.work()
            self.loop.run_once(max_wait_ms=0)
        assert len(self.told) == self.asked, "each client is answered once"
        for each in self.brokers:
            stored = {OWN: self.stored(each.own_path), CLUSTER_WIDE: self.stored(DEFAULT_PATH)}
            expected, _ = applied(each.live.started, stored)
            for level in stored:
                assert texts_at(each.live.now, level) == texts_at(expected, level)

    @invariant()
    def answers_have_known_codes(self) -> None:
        codes = {ErrorCode.none, ErrorCode.invalid_request, ErrorCode.invalid_config}
        assert {outcome.code for outcome in self.told} <= codes

    def stored(self, path: str) -> dict[str, str]:
        if self.tool.exists(path) is None:
            return {}
        config: dict[str, str] = json.loads(self.tool.get(path)[0])["config"]
        return config

    def teardown(self) -> None:
        self.everything_settles()
        self.loop.close()


TestSettingsOfTwoBrokers = SettingsOfTwoBrokers.TestCase
