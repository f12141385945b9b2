"""A broker's quotas follow the registry: over changes, failures and new sessions."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.brokers.stored.changes import DONE
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.coordinator.registry.documents import paths
from cluster.model.errors import ErrorCode
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of

ALICE = QuotaEntity("alice", None)


class Stage:
    """A broker's quotas, and another client of the registry."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = FakeTree()
        self.other: Any = FakeClient(self.tree)
        store_of(self.other).brokers.prepare()
        self.session = FakeSession(self.tree, self.loop.call_from_thread)
        self.known: dict[Any, Any] = {}
        self.told: list[Any] = []
        quotas = SimpleNamespace(
            quotas=lambda: self.known, replace_quotas=self._replace, refreshed=None
        )
        throttle = SimpleNamespace(on_limits_changed=lambda _refreshed: iter(()))
        self.changes = QuotaChanges(
            self.session,  # type: ignore[arg-type]  # stand in for the real ones
            self.loop,
            self.clock,
            quotas,  # type: ignore[arg-type]
            throttle,  # type: ignore[arg-type]
            Slices(self.clock.monotonic_us, self.loop.next_turn),
            on_applied=self.told.append,
        )

    def _replace(self, quotas: Any) -> None:
        self.known = quotas

    def write(self, rate: int) -> None:
        """Write the config, then announce it, like another broker."""
        document = b'{"version":1,"config":{"producer_byte_rate":"%d"}}' % rate
        self.other.ensure_path("/config/users/alice")
        self.other.set("/config/users/alice", document)
        self.tree.create(f"{paths.CONFIG_CHANGE_PREFIX}", b"", 0, sequence=True)

    @property
    def rate(self) -> float | None:
        limit: float | None = self.known.get(ALICE, {}).get(QuotaKind.PRODUCE)
        return limit

    def settle(self) -> None:
        while self.loop.has_calls or self.session.pending:
            self.session.work()
            self.loop.run_once(max_wait_ms=0)

    def pass_time(self, duration_ms: int) -> None:
        self.clock.pass_time(duration_ms)
        self.loop.run_once(max_wait_ms=0)
        self.settle()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    stage.changes.follower.load_at_start()
    yield stage
    stage.loop.close()


def test_every_change_is_followed(stage: Stage) -> None:
    for rate in (1, 2, 3):
        stage.write(rate)
        stage.settle()
        assert stage.rate == rate


def test_change_during_a_load_is_not_lost(stage: Stage) -> None:
    stage.write(1)
    stage.loop.run_once(max_wait_ms=0)  # the load is submitted, and not carried out
    stage.session.work()
    stage.write(2)  # after it was read, before it is taken over
    stage.settle()
    assert stage.rate == 2


def test_failed_load_is_retried(stage: Stage) -> None:
    stage.session.client.expire()
    stage.write(1)
    stage.changes.follower.on_new_session()
    stage.settle()
    assert stage.rate is None
    stage.session.client.begin_again()
    stage.pass_time(500)
    assert stage.rate == 1
    stage.write(2)
    stage.settle()
    assert stage.rate == 2


def test_new_session_reads_changes_since_the_last_one(stage: Stage) -> None:
    stage.session.client.begin_again()
    stage.write(7)
    stage.settle()
    assert stage.rate is None, "the watch ended with its session"
    stage.changes.follower.on_new_session()
    stage.settle()
    assert stage.rate == 7


def test_failed_write_is_reported(stage: Stage) -> None:
    told: list[Any] = []
    stage.session.client.expire()
    stage.changes.alter({ALICE: {"producer_byte_rate": "1"}}, told.append)
    stage.settle()
    ((entity, outcome),) = told[0].items()
    assert entity == ALICE
    assert outcome.code is ErrorCode.unknown_server_error
    assert "SessionExpiredError" in outcome.detail
    assert len(told) == 1


def test_quota_of_a_host_name_limits_its_address(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {"here.example": "192.0.2.1"}
    monkeypatch.setattr("cluster.brokers.stored.quota_changes.address_of", addresses.get)

    def altered(host: str, *, is_dry: bool = False) -> Any:
        entity = QuotaEntity(None, None, host)
        done: list[Any] = []
        stage.changes.alter({entity: {"connection_creation_rate": "7"}}, done.append, is_dry=is_dry)
        stage.settle()
        return done[0][entity]

    for is_dry in (True, False):
        refused = altered("nowhere.example", is_dry=is_dry)
        assert refused.code is ErrorCode.invalid_request
        assert refused.detail == "nowhere.example is not a valid IP or resolvable host."
    assert altered("here.example", is_dry=True) == DONE
    assert stage.known == {}
    assert altered("here.example") == DONE
    limits = {QuotaKind.CONNECTION: 7.0}
    assert stage.known == {QuotaEntity(None, None, "here.example"): limits}
    assert stage.told[-1] == {QuotaEntity(None, None, "192.0.2.1"): limits}


def test_reading_the_quotas_looks_up_no_host(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def address_of(host: str) -> str:
        looked_up.append(host)
        return "192.0.2.1"

    monkeypatch.setattr("cluster.brokers.stored.quota_changes.address_of", address_of)
    entity = QuotaEntity(None, None, "here.example")
    stage.changes.alter({entity: {"connection_creation_rate": "7"}}, lambda _outcomes: None)
    stage.settle()
    looked_up.clear()
    found: list[Any] = []

    stage.changes.read(found.append, found.append)
    stage.settle()

    assert found == [{entity: {QuotaKind.CONNECTION: 7.0}}]
    assert looked_up == [], "a look-up may take seconds, in which nothing else is read"
