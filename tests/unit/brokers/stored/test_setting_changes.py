"""A broker's settings follow the registry: over changes, nonsense, failures and new sessions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.config import broker as keys
from cluster.config.dynamic import CLUSTER_WIDE, OWN
from cluster.config.listeners import of_listener
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import broker_settings
from cluster.coordinator.registry.documents import paths
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of

OWN_PATH, DEFAULT_PATH = "/config/brokers/7", "/config/brokers/<default>"
DONE = Outcome(ErrorCode.none)


class Stage:
    """Broker 7's settings, and another client of the registry."""

    def __init__(self, **texts: str) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = FakeTree()
        self.other: Any = FakeClient(self.tree)
        store_of(self.other).brokers.prepare()
        self.session = FakeSession(self.tree, self.loop.call_from_thread)
        self.replaced: list[int] = []
        self.start(texts)

    def start(self, texts: Mapping[str, str]) -> None:
        """The broker as a new process, with these settings in its file."""
        self.live = LiveSettings(broker_settings({"log.segment.bytes": "1000", **texts}))
        self.live.subscribe(lambda new: self.replaced.append(new[keys.LOG_SEGMENT_BYTES]))
        self.changes = SettingChanges(
            BrokerId(7),
            self.session,  # type: ignore[arg-type]  # stands in for the real one
            self.loop,
            self.clock,
            self.live,
        )

    @property
    def segment_bytes(self) -> int:
        return self.live[keys.LOG_SEGMENT_BYTES]

    def write(self, path: str, texts: Mapping[str, str] | bytes) -> None:
        """Change the registry without an announcement."""
        document = (
            texts if isinstance(texts, bytes) else json.dumps({"config": dict(texts)}).encode()
        )
        self.other.ensure_path(path)
        self.other.set(path, document)

    def stored(self, path: str) -> Any:
        return json.loads(self.other.get(path)[0])

    def alter(self, level: Any, *, is_dry: bool = False, **texts: str) -> list[Outcome]:
        return self.alter_keys(
            level, {key.replace("_", "."): text for key, text in texts.items()}, is_dry=is_dry
        )

    def alter_keys(
        self, level: Any, values: Mapping[str, str], *, is_dry: bool = False
    ) -> list[Outcome]:
        told: list[Outcome] = []
        self.changes.alter(level, lambda before: {**before, **values}, told.append, is_dry=is_dry)
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


@pytest.fixture
def started(stage: Stage) -> Stage:
    stage.changes.load_at_start()
    return stage


def test_broker_starts_with_stored_settings(stage: Stage) -> None:
    stage.write(DEFAULT_PATH, {"log.segment.bytes": "2000", "log.retention.bytes": "7"})
    stage.write(OWN_PATH, {"log.segment.bytes": "3000"})
    stage.changes.load_at_start()
    assert stage.segment_bytes == 3_000
    assert stage.live[keys.LOG_RETENTION_BYTES] == 7


def test_empty_store_changes_no_setting(started: Stage) -> None:
    assert started.replaced == []
    assert started.live.now is started.live.started


def test_every_change_of_either_record_is_followed(started: Stage) -> None:
    started.write(DEFAULT_PATH, {"log.segment.bytes": "2000"})
    started.settle()
    started.write(OWN_PATH, {"log.segment.bytes": "3000"})
    started.settle()
    started.write(DEFAULT_PATH, {"log.segment.bytes": "4000"})
    started.settle()
    started.other.delete(OWN_PATH)
    started.settle()
    started.write(DEFAULT_PATH, b"")
    started.settle()
    assert started.replaced == [2_000, 3_000, 3_000, 4_000, 1_000]


def test_change_during_the_read_of_another_is_not_lost(started: Stage) -> None:
    started.write(DEFAULT_PATH, {"log.segment.bytes": "2000"})
    started.loop.run_once(max_wait_ms=0)  # reading is submitted, and not carried out
    started.session.work()
    started.write(DEFAULT_PATH, {"log.segment.bytes": "4000"})  # read already, not in force yet
    started.settle()
    assert started.segment_bytes == 4_000


def test_invalid_settings_are_logged_once_and_the_rest_applied(
    started: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {"log.segment.bytes": "2000", "log.retention.ms": "soon", "nope": "1", "broker.id": "8"}
    started.write(OWN_PATH, texts)
    started.settle()
    started.write(OWN_PATH, {**texts, "log.segment.bytes": "2001"})
    started.settle()
    assert started.segment_bytes == 2_001
    (line,) = [each for each in caplog.messages if "ignored settings" in each]
    for part in ("log.retention.ms=soon", "nope", "broker.id"):
        assert part in line

    started.write(DEFAULT_PATH, b'{"vers')
    started.settle()
    assert started.segment_bytes == 2_001
    assert DEFAULT_PATH in caplog.messages[-1]


def test_failed_read_is_retried(started: Stage) -> None:
    started.session.client.expire()
    started.write(OWN_PATH, {"log.segment.bytes": "2000"})
    started.changes.follower.on_new_session()
    started.settle()
    assert started.segment_bytes == 1_000
    started.session.client.begin_again()
    started.clock.pass_time(500)
    started.loop.run_once(max_wait_ms=0)
    started.settle()
    assert started.segment_bytes == 2_000
    started.write(OWN_PATH, {"log.segment.bytes": "3000"})
    started.settle()
    assert started.segment_bytes == 3_000


def test_change_is_applied_before_its_answer(started: Stage) -> None:
    told = started.alter(OWN, log_segment_bytes="5000")
    while not told:
        started.session.work(1)
        started.loop.run_once(max_wait_ms=0)
    assert told == [DONE]
    assert started.segment_bytes == 5_000
    assert started.stored(OWN_PATH) == {"version": 1, "config": {"log.segment.bytes": "5000"}}
    (change,) = started.other.get_children(paths.CONFIG_CHANGES)
    assert started.stored(f"{paths.CONFIG_CHANGES}/{change}")["entity_path"] == "brokers/7"

    assert started.alter(CLUSTER_WIDE, log_retention_bytes="9") == []
    started.settle()
    assert started.stored(DEFAULT_PATH)["config"] == {"log.retention.bytes": "9"}
    assert started.live[keys.LOG_RETENTION_BYTES] == 9


def test_two_changes_at_once_are_both_made(started: Stage) -> None:
    told = started.alter(OWN, log_segment_bytes="5000")
    told += started.alter(OWN, log_retention_bytes="9")
    started.settle()
    assert started.stored(OWN_PATH)["config"] == {
        "log.segment.bytes": "5000",
        "log.retention.bytes": "9",
    }


def test_a_dry_run_and_a_change_to_what_is_there_write_nothing(started: Stage) -> None:
    told = [started.alter(OWN, is_dry=True, log_segment_bytes="5000"), started.alter(OWN)]
    started.settle()
    assert told == [[DONE], [DONE]]
    assert OWN_PATH not in started.tree.nodes
    assert started.replaced == []


def test_refused_change_is_not_written(started: Stage) -> None:
    told = started.alter(OWN, log_segment_bytes="huge", is_dry=True)
    told_of_id = started.alter(OWN, broker_id="8")
    started.settle()
    assert [each.code for each in told + told_of_id] == [ErrorCode.invalid_request] * 2
    assert OWN_PATH not in started.tree.nodes


def test_record_without_read_permission_is_refused_once(
    started: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.write(OWN_PATH, {"log.segment.bytes": "2000"})
    started.settle()

    def refuse(_path: str) -> None:
        raise NoAuthError

    monkeypatch.setattr(started.session.client, "get", refuse)
    told = started.alter(OWN, log_segment_bytes="5000")
    for _ in range(10):
        started.session.work()
        started.loop.run_once(max_wait_ms=0)
    (outcome,) = told
    assert outcome.code is ErrorCode.unknown_server_error
    assert OWN_PATH in (outcome.detail or "")
    assert started.stored(OWN_PATH) == {"config": {"log.segment.bytes": "2000"}}


def test_unreachable_registry_is_reported(started: Stage) -> None:
    started.session.client.expire()
    told = started.alter(OWN, log_segment_bytes="5000")
    started.settle()
    assert [each.code for each in told] == [ErrorCode.unknown_server_error]


KEY = "listener.name.clients.ssl.keystore.password"
SECRET = {"password.encoder.secret": "blue", "password.encoder.iterations": "1024"}


@pytest.fixture
def with_secret(stage: Stage) -> Stage:
    stage.start(SECRET)
    stage.changes.load_at_start()
    return stage


def password(stage: Stage) -> str | None:
    return of_listener(stage.live.now, "CLIENTS")[keys.SSL_KEYSTORE_PASSWORD]


def test_a_password_is_encrypted_in_the_store_and_hidden_in_the_log(
    with_secret: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    told = with_secret.alter_keys(OWN, {KEY: "hunter2"})
    with_secret.settle()
    assert told == [DONE]
    assert password(with_secret) == "hunter2"
    assert "hunter2" not in str(with_secret.stored(OWN_PATH))
    assert with_secret.stored(OWN_PATH)["config"][KEY].startswith("keyFactoryAlgorithm:")
    assert "hunter2" not in caplog.text
    assert f"{KEY}=[hidden]" in caplog.text


def test_a_password_without_a_secret_to_encrypt_it_is_refused(started: Stage) -> None:
    told = started.alter_keys(OWN, {KEY: "hunter2"})
    started.settle()
    (outcome,) = told
    assert outcome.code is ErrorCode.invalid_request
    assert outcome.detail is not None
    assert outcome.detail.startswith("Password encoder secret not configured")
    assert started.other.exists(OWN_PATH) is None


def test_another_change_leaves_a_stored_password_as_it_is(with_secret: Stage) -> None:
    with_secret.alter_keys(OWN, {KEY: "hunter2"})
    with_secret.settle()
    before = with_secret.stored(OWN_PATH)["config"][KEY]
    with_secret.alter(OWN, log_segment_bytes="5000")
    with_secret.settle()
    assert with_secret.stored(OWN_PATH)["config"] == {KEY: before, "log.segment.bytes": "5000"}
    assert (password(with_secret), with_secret.segment_bytes) == ("hunter2", 5_000)


def test_passwords_of_the_old_secret_are_encrypted_with_the_new_one(
    with_secret: Stage,
) -> None:
    with_secret.alter_keys(OWN, {KEY: "hunter2"})
    with_secret.settle()
    with_secret.start(
        {**SECRET, "password.encoder.secret": "red", "password.encoder.old.secret": "blue"}
    )
    with_secret.changes.load_at_start()
    assert password(with_secret) == "hunter2"
    with_secret.start({**SECRET, "password.encoder.secret": "red"})
    with_secret.changes.load_at_start()
    assert password(with_secret) == "hunter2"


def test_undecryptable_password_is_logged_kept_and_replaceable(
    with_secret: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with_secret.alter_keys(OWN, {KEY: "hunter2"})
    with_secret.settle()
    stored = with_secret.stored(OWN_PATH)["config"][KEY]
    with_secret.start({**SECRET, "password.encoder.secret": "green"})
    with_secret.changes.load_at_start()
    assert password(with_secret) is None
    assert f"{KEY} cannot be decrypted with password.encoder.secret" in caplog.text
    with_secret.alter(OWN, log_segment_bytes="5000")
    with_secret.settle()
    assert with_secret.stored(OWN_PATH)["config"][KEY] == stored
    with_secret.alter_keys(OWN, {KEY: "hunter3"})
    with_secret.settle()
    assert password(with_secret) == "hunter3"


def test_listener_setting_is_stored_applied_and_announced(
    started: Stage,
) -> None:
    key = "listener.name.clients.ssl.keystore.location"
    told = started.alter_keys(OWN, {key: "/new.pem"})
    started.settle()
    assert told == [DONE]
    assert started.stored(OWN_PATH)["config"] == {key: "/new.pem"}
    assert started.replaced == [1_000]
    assert of_listener(started.live.now, "CLIENTS")[keys.SSL_KEYSTORE_LOCATION] == "/new.pem"
    assert started.live[keys.SSL_KEYSTORE_LOCATION] is None
