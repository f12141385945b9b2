"""Turns the options of `start` into a plan: settings, ports, one callable per child.

Imports what the children run, so that they are forked with everything loaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.brokers.broker import run_broker
from cluster.config.properties_file import read_properties_file
from cluster.config.settings import (
    Settings,
    broker_settings,
    parse_override,
    unused_keys,
)
from cluster.coordinator.registry.options import RegistryOptions
from cluster.coordinator.registry.socket_server import run_registry
from cluster.model.errors import UserError
from cluster.supervisor.daemon import run_in_background
from cluster.supervisor.lock_file import hold_lock
from cluster.supervisor.plan import ChildSpec, ClusterPlan, DataDir, Ready
from cluster.supervisor.ports import WantedPort, choose_ports
from cluster.supervisor.state_file import draft_of, remembered_brokers
from cluster.supervisor.supervise import supervise

DEFAULT_BROKERS: Final = 3
_LOOPBACK: Final = "127.0.0.1"
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
_PER_BROKER: Final = ("broker.id", "listeners", "log.dirs", "log.dir")
"""What differs from broker to broker, so no file or option can say it for all."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What a person chose; ports of 0 mean any free one."""

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
    detach: bool = False


def start(options: StartOptions, began_ms: int, note: Callable[[str], None]) -> int:
    """Start the cluster and, unless detached, stay until it has stopped. Returns the exit status.

    `began_ms`: when the command began, monotonic. `note` takes remarks for the person.
    Raises UserError.
    """
    files = DataDir(options.data_dir)
    _claim(files)
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


def make_plan(options: StartOptions, note: Callable[[str], None]) -> ClusterPlan:
    """Everything decided before the first fork. Raises UserError."""
    files = DataDir(options.data_dir)
    count = _broker_count(options, files)
    texts, places = _common_texts(options, count, note)
    external = texts.get("zookeeper.connect")
    wanted = [
        WantedPort(f"broker {broker}", options.host, _nth(options.port, broker), "--port")
        for broker in range(count)
    ]
    if external is None:
        wanted.append(WantedPort("registry", _LOOPBACK, options.registry_port, "--registry-port"))
    ports = choose_ports(wanted)
    registry = None if external else _registry(files, ports[count])
    address = external or f"{_LOOPBACK}:{ports[count]}"
    brokers = tuple(
        _broker(
            options.host,
            ports[broker],
            broker,
            files.run,
            broker_settings(
                {
                    "advertised.listeners": _advertised(options, ports[broker]),
                    **texts,
                    "broker.id": str(broker),
                    "listeners": f"PLAINTEXT://{_bracketed(options.host)}:{ports[broker]}",
                    "log.dirs": str(files.broker(broker)),
                    "zookeeper.connect": address,
                },
                places,
            ),
        )
        for broker in range(count)
    )
    return ClusterPlan(files.path, registry, address, brokers)


def _claim(files: DataDir) -> None:
    """Make the directory ours, unless it holds something else."""
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        draft = draft_of(files.state_file).name  # of a first start that was killed
        ours = {files.run.name, files.logs.name, files.state_file.name, draft, "rollup"}
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


def _common_texts(
    options: StartOptions, count: int, note: Callable[[str], None]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Settings that all brokers share, from the file and then from --override; and the place of
    those that the file gives.
    """
    file = None if options.config is None else read_properties_file(options.config)
    from_file = dict(file.texts) if file else {}
    from_options = dict(map(parse_override, options.overrides))
    for key in _PER_BROKER:
        if key in from_options:
            raise UserError(
                f"--override {key} cannot be given for all brokers:"
                " use --host, --port and --data-dir"
            )
    replaced = [key for key in _PER_BROKER if from_file.pop(key, None) is not None]
    if replaced:
        note(f"From {options.config}, `start` sets itself: {', '.join(replaced)}.")
    texts = {"default.replication.factor": str(min(3, count)), **from_file, **from_options}
    if unused_keys(texts):
        note(f"Without effect here: {', '.join(unused_keys(texts))}.")
    if "advertised.listeners" in texts and count > 1:
        raise UserError(
            "advertised.listeners cannot be the same for several brokers: use --advertised-host"
        )
    lines = file.lines if file else {}
    places = {
        key: f"{options.config}, line {line}"
        for key, line in lines.items()
        if key not in from_options
    }
    return texts, places


def _registry(files: DataDir, port: int) -> ChildSpec:
    registry = RegistryOptions(data_dir=files.path / "registry", host=_LOOPBACK, port=port)

    def run(ready: Ready) -> None:
        run_registry(registry, lambda bound: ready({"port": bound}))

    return ChildSpec("registry", "registry", _LOOPBACK, port, run)


def _broker(host: str, port: int, broker_id: int, run_dir: Path, settings: Settings) -> ChildSpec:
    def run(ready: Ready) -> None:
        run_broker(settings, run_dir, ready)

    shown_host = _LOOPBACK if host in _ANY_ADDRESS else host
    return ChildSpec(f"broker-{broker_id}", f"broker {broker_id}", shown_host, port, run, broker_id)


def _advertised(options: StartOptions, port: int) -> str:
    host = options.advertised_host or options.host
    return f"PLAINTEXT://{_bracketed(_LOOPBACK if host in _ANY_ADDRESS else host)}:{port}"


def _nth(port: int, broker: int) -> int:
    return port + broker if port else 0


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
