"""One broker without a supervisor, for a cluster on several hosts.

Its data directory has its log, and in `run/` what it would share with a supervisor: the stats file,
and its session of the registry, which the next start on this host ends.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cluster.brokers.broker import run_broker
from cluster.config import broker as keys
from cluster.config.kafka_file import read_kafka_texts, unknown_keys
from cluster.config.listeners import client_listeners
from cluster.config.properties_file import read_properties_file
from cluster.config.remarks import remarks_on
from cluster.config.setting import SettingError
from cluster.config.settings import Settings, broker_settings, parse_override, placed
from cluster.coordinator.registry.client.kazoo_session import KazooSession
from cluster.coordinator.registry.client.registry_settings import access_of
from cluster.datadir.lock_file import hold_lock
from cluster.datadir.paths import DataDir
from cluster.launch.broker_identity import ID_KEYS, identity
from cluster.launch.registry_login import open_registry_warning
from cluster.model.addresses import is_loopback
from cluster.model.cluster_view import ClusterView
from cluster.model.errors import UserError
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime import logs
from cluster.runtime.installation import shown
from cluster.runtime.process_title import name_process
from cluster.supervisor.dead_sessions import close_dead_session


class _Read(NamedTuple):
    """What the settings file and the command line say."""

    texts: dict[str, str]
    places: Mapping[str, str]
    """For each key from the file, its place for error messages."""


def start_lone_broker(
    files: DataDir,
    config: Path,
    overrides: Sequence[str],
    note: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Run the broker of these settings until a signal ends it; `note` shows remarks, `say` what
    happens.

    Raises UserError, also if another broker of this id is alive, and StorageFailed.
    """
    read = _read(config, overrides, note)
    _claim(files)
    try:
        log_dirs = _log_dirs(read.texts)
        broker = identity(
            read.texts, log_dirs, lambda reserved: _generated_id(files, read, reserved)
        )
    except SettingError as problem:
        raise placed(problem, read.places) from None
    settings = _settings(read, broker)
    lock = hold_lock(files.run / f"broker-{broker}.lock")
    if lock is None:
        raise UserError(f"broker {broker} runs already with --data-dir {shown(files.path)}")
    for remark in (*remarks_on(settings), *_remarks_on_links(settings)):
        note(remark)
    close_dead_session(files.session(broker), settings[keys.ZOOKEEPER_CONNECT], access_of(settings))
    log_file = files.log(f"broker-{broker}")
    logs.configure(log_file)
    name_process(f"broker {broker}", files.path)

    def on_ready(facts: dict[str, Any]) -> None:
        listeners = ", ".join(f"{name} on port {port}" for name, port in facts["ports"].items())
        say(
            f"Broker {broker} of cluster {facts['cluster_id']} serves {listeners}."
            f" Its log is {shown(log_file)}; Ctrl-C stops it."
        )

    def on_progress(progress: RecoveryProgress) -> None:
        say(progress.text)

    def on_view(_view: ClusterView) -> None:
        """Nobody waits for all brokers here."""

    run_broker(settings, files.run, on_ready, on_progress, on_view)
    say(f"Broker {broker} stopped.")


def _read(config: Path, overrides: Sequence[str], note: Callable[[str], None]) -> _Read:
    file = read_properties_file(config)
    given = dict(map(parse_override, overrides))
    places = {key: f"{config}, line {line}" for key, line in file.lines.items() if key not in given}
    try:
        read = read_kafka_texts(file.texts, given)
    except SettingError as problem:
        raise placed(problem, places) from None
    if read.unknown:
        note(unknown_keys(read.unknown, str(config), file.lines))
    for remark in read.remarks:
        note(remark)
    return _Read(read.texts, places)


def _claim(files: DataDir) -> None:
    """Make the directories of a broker. Raises UserError in the directory of another command."""
    if files.state_file.exists():
        raise UserError(
            f"{files.path} belongs to a cluster that `start` has made: choose another --data-dir"
        )
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        files.run.mkdir(mode=0o700, exist_ok=True)
        files.logs.mkdir(exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None


def _log_dirs(texts: Mapping[str, str]) -> list[Path]:
    """The directories that the settings name. Raises SettingError."""
    text = texts.get("log.dirs", texts.get("log.dir"))
    if text is None:
        raise SettingError("log.dirs is missing: name the directories for partitions", "log.dirs")
    return [Path(part) for part in keys.LOG_DIRS.parse("log.dirs", text)]


def _settings(read: _Read, broker: int) -> Settings:
    texts = {key: text for key, text in read.texts.items() if key not in ID_KEYS}
    return broker_settings({**texts, ID_KEYS[0]: str(broker)}, read.places)


def _generated_id(files: DataDir, read: _Read, reserved: int) -> int:
    """A new id from the registry; needs a session of its own. Raises UserError."""
    settings = _settings(read, 0)
    registry = KazooSession(
        settings[keys.ZOOKEEPER_CONNECT],
        settings[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
        files.run / "new-broker.session",
        lambda call: call(),
        access=access_of(settings),
        protects_znodes=settings[keys.ZOOKEEPER_SET_ACL],
    )
    registry.connect(settings[keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS])
    try:
        return registry.call(lambda store: store.ids.next_broker_id(reserved))
    finally:
        registry.close(settings[keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS])


def _remarks_on_links(settings: Settings) -> list[str]:
    """What keeps brokers and clients of other hosts from this one."""
    remarks = []
    hosts = [host.rpartition(":")[0] for host in _servers(settings[keys.ZOOKEEPER_CONNECT])]
    if is_loopback(settings[keys.CONTROL_HOST]) and not all(map(is_loopback, hosts)):
        remarks.append(
            f"Warning: brokers on other hosts cannot reach {settings[keys.CONTROL_HOST]}: set"
            " milena.control.host to an address of this host (and milena.registry.auth)."
        )
    if settings[keys.AUTHORIZER_CLASS_NAME] or any(
        each.protocol.has_sasl for each in client_listeners(settings)
    ):
        warning = open_registry_warning(settings)
        if warning is not None:
            remarks.append(warning)
    return remarks


def _servers(connect: str) -> list[str]:
    return connect.partition("/")[0].split(",")
