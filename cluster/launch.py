"""Turns the options of `start` into a plan: settings, ports, one callable per child.

Imports what the children run, so that they are forked with everything loaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cluster.brokers.broker import run_broker
from cluster.config.kafka_file import read_kafka_texts
from cluster.config.properties_file import PropertiesFile, read_properties_file
from cluster.config.remarks import remarks_on
from cluster.config.setting import SettingError
from cluster.config.settings import (
    Settings,
    broker_settings,
    parse_override,
    placed,
)
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.coordinator.registry.server.registry_process import run_registry
from cluster.model.errors import UserError
from cluster.supervisor.daemon import run_in_background
from cluster.supervisor.lock_file import hold_lock
from cluster.supervisor.log_dirs import (
    DEFAULT_PLACES,
    check_places,
    missing_directories,
    own_directories,
    parse_places,
    places_of,
    remembered_directories,
)
from cluster.supervisor.plan import ChildSpec, ClusterPlan, DataDir, Reports
from cluster.supervisor.ports import WantedPort, choose_ports
from cluster.supervisor.state_file import draft_of, read_state, remembered_brokers
from cluster.supervisor.supervise import supervise

DEFAULT_BROKERS: Final = 3
_LOOPBACK: Final = "127.0.0.1"
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
_PER_BROKER: Final = ("broker.id", "node.id", "listeners")
"""Keys whose values differ from broker to broker, so that `--override` refuses them."""
_LOG_DIRS: Final = ("log.dirs", "log.dir")
"""Their values are shared out among the brokers; the first one counts, as in Kafka."""
_ADVERTISED: Final = "advertised.listeners"


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of `start`; a port of 0 means any free port."""

    data_dir: Path
    brokers: int | None = None
    """None: as many as the data directory was last started with, else 3."""
    host: str = _LOOPBACK
    advertised_host: str | None = None
    port: int = 9092
    registry_port: int = 2181
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    """`key=value`, strongest last."""
    log_dirs: str | None = None
    """Places of log directories, by commas; see `supervisor/log_dirs.py`. None: those of the
    settings, else as the data directory was last started with, else the data directory."""
    detach: bool = False


def start(options: StartOptions, began_ms: int, note: Callable[[str], None]) -> int:
    """Start the cluster and, unless detached, stay until it has stopped. Returns the exit status.

    `began_ms`: when the command began, on the monotonic clock. `note` shows a remark to the user.
    Raises UserError.
    """
    files = DataDir(options.data_dir)
    _claim(files, options.log_dirs)
    try:
        lock = hold_lock(files.lock_file)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None
    if lock is None:
        raise UserError(f"another start or stop is at work in {files.path}: try again in a moment")
    plan = make_plan(options, note)
    if not options.detach:
        return supervise(plan, lock, began_ms)
    return run_in_background(
        lambda on_up: supervise(plan, lock, began_ms, on_up=on_up), files.log("supervisor")
    )


class _Shared(NamedTuple):
    """Settings that are the same for all brokers, and the host that clients are given."""

    texts: Mapping[str, str]
    places: Mapping[str, str]
    """For each key from the file, its place for error messages, e.g. `FILE, line 3`."""
    advertised_host: str
    log_dirs: str | None
    """The list that the settings name, if any."""


def make_plan(options: StartOptions, note: Callable[[str], None]) -> ClusterPlan:
    """Validate all options and choose ports, before the first fork. Raises UserError."""
    files = DataDir(options.data_dir)
    count = _broker_count(options, files)
    shared = _shared(options, count, note)
    external = shared.texts.get("zookeeper.connect")
    wanted = [
        WantedPort(f"broker {broker}", options.host, _nth(options.port, broker), "--port")
        for broker in range(count)
    ]
    if external is None:
        wanted.append(WantedPort("registry", _LOOPBACK, options.registry_port, "--registry-port"))
    ports = choose_ports(wanted)
    directories = _log_directories(options.log_dirs or shared.log_dirs, files, count)
    registry = None if external else _registry(files, ports[count])
    address = external or f"{_LOOPBACK}:{ports[count]}"
    settings = [
        broker_settings(
            {
                _ADVERTISED: _advertised(shared.advertised_host, ports[broker]),
                **shared.texts,
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://{_bracketed(options.host)}:{ports[broker]}",
                "log.dirs": ",".join(map(str, directories[broker])),
                "zookeeper.connect": address,
            },
            shared.places,
        )
        for broker in range(count)
    ]
    for remark in remarks_on(settings[0]):
        note(remark)
    brokers = tuple(
        _broker(
            options.host, ports[broker], broker, files.run, settings[broker], directories[broker]
        )
        for broker in range(count)
    )
    return ClusterPlan(files.path, registry, address, brokers)


def _claim(files: DataDir, log_dirs: str | None) -> None:
    """Create the data directory. Raises UserError if it holds files that are not this program's.

    Places for partitions may have been made before, to mount disks on them.
    """
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        draft = draft_of(files.state_file).name  # of a first start that was killed
        ours = {files.run.name, files.logs.name, files.state_file.name, draft, "rollup"}
        for place in parse_places(log_dirs or "."):
            ours.update(Path(place).parts[:1])
        present = {entry.name for entry in files.path.iterdir()}
        if files.state_file.name not in present and not present <= ours:
            raise UserError(
                f"{files.path} holds files that are not Milena's: choose another --data-dir"
            )
        files.run.mkdir(mode=0o700, exist_ok=True)
        files.logs.mkdir(exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None


def _broker_count(options: StartOptions, files: DataDir) -> int:
    before = remembered_brokers(files.state_file)
    count = options.brokers or before or DEFAULT_BROKERS
    if before is not None and count < before:
        raise UserError(
            f"{files.path} holds the data of {before} brokers, and {count} would lose replicas:"
            f" use --brokers {before}, another --data-dir, or `stop --purge` first"
        )
    return count


def _log_directories(named: str | None, files: DataDir, count: int) -> list[tuple[Path, ...]]:
    """Where each broker keeps its partitions. Raises UserError."""
    before = remembered_directories(read_state(files.state_file), files.path)
    places = parse_places(named) if named is not None else places_of(before) or DEFAULT_PLACES
    check_places(places, files.path)
    directories = [own_directories(places, files.path, broker) for broker in range(count)]
    missing = missing_directories(before, directories)
    if missing:
        raise UserError(
            f"{missing[0]} holds replicas, which would be lost: keep {missing[0].parent} in"
            " --log-dirs, or `stop --purge` first"
        )
    return directories


def _shared(options: StartOptions, count: int, note: Callable[[str], None]) -> _Shared:
    """Read the settings from --config, then from --override, which is stronger."""
    file = (
        PropertiesFile({}, {}) if options.config is None else read_properties_file(options.config)
    )
    given = dict(map(parse_override, options.overrides))
    for key in _PER_BROKER:
        if key in given:
            raise UserError(
                f"--override {key} cannot be given for all brokers:"
                " use --host, --port and --data-dir"
            )
    places = {
        key: f"{options.config}, line {line}"
        for key, line in file.lines.items()
        if key not in given
    }
    try:
        read = read_kafka_texts({**file.texts, **given})
    except SettingError as problem:
        raise placed(problem, places) from None
    replicas = str(min(3, count))
    texts = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        **read.texts,
    }
    replaced = [key for key in _PER_BROKER if texts.pop(key, None) is not None]
    if replaced:
        note(f"From {options.config}, `start` sets itself: {', '.join(replaced)}.")
    named = [text for key in _LOG_DIRS if (text := texts.pop(key, None)) is not None]
    log_dirs = named[0] if named else None
    if log_dirs is not None and options.log_dirs is None:
        note(
            f"Each broker keeps its partitions in a directory of its own below {log_dirs}"
            " (--log-dirs . keeps them in the data directory)."
        )
    for remark in read.remarks:
        note(remark)
    host = options.advertised_host
    if _ADVERTISED in file.texts and _ADVERTISED not in given:
        host = host or read.advertised_host
        if host is not None:
            texts.pop(_ADVERTISED, None)
    if _ADVERTISED in texts and count > 1:
        raise UserError(
            "advertised.listeners cannot be the same for several brokers: use --advertised-host"
        )
    return _Shared(texts, places, host or options.host, log_dirs)


def _registry(files: DataDir, port: int) -> ChildSpec:
    registry = RegistryOptions(data_dir=files.path / "registry", host=_LOOPBACK, port=port)

    def run(reports: Reports) -> None:
        run_registry(registry, lambda bound: reports.ready({"port": bound}))

    return ChildSpec("registry", "registry", _LOOPBACK, port, run)


def _broker(
    host: str,
    port: int,
    broker_id: int,
    run_dir: Path,
    settings: Settings,
    log_dirs: tuple[Path, ...],
) -> ChildSpec:
    def run(reports: Reports) -> None:
        run_broker(settings, run_dir, reports.ready, reports.progress)

    shown_host = _LOOPBACK if host in _ANY_ADDRESS else host
    return ChildSpec(
        f"broker-{broker_id}", f"broker {broker_id}", shown_host, port, run, broker_id, log_dirs
    )


def _advertised(host: str, port: int) -> str:
    return f"PLAINTEXT://{_bracketed(_LOOPBACK if host in _ANY_ADDRESS else host)}:{port}"


def _nth(port: int, broker: int) -> int:
    return port + broker if port else 0


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
