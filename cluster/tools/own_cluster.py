"""The cluster of one run of a command: started for it, and removed at the end in any case."""

import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from cluster.launch.options import DEFAULT_BROKERS, StartOptions
from cluster.local.local_cluster import CommandFailed, LocalCluster
from cluster.model.addresses import BROKER_PORT, LOOPBACK, REGISTRY_PORT
from cluster.model.errors import UserError
from cluster.runtime.installation import DATA_DIR_VARIABLE, chosen_data_dir, shown
from cluster.runtime.interrupts import handled_by
from cluster.runtime.ports import WantedPort, choose_ports

_IN_USE: Final = "already in use"
_ATTEMPTS: Final = 3


def own_directory(chosen: Path | None, command: str = "demo") -> Path:
    """The directory `chosen`, else a new temporary one. Raises UserError unless it is empty."""
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix=f"milena-{command}-"))
    path = chosen.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        by_variable = f" (${DATA_DIR_VARIABLE})" if path == chosen_data_dir() else ""
        raise UserError(
            f"{shown(path)}{by_variable} is not empty: {command} wants a --data-dir of its own"
        )
    return path


def start_on_usual_ports(
    data_dir: Path, port: int | None, *, secure: bool = False, racks: str | None = None
) -> LocalCluster:
    """Start three brokers on consecutive ports from `port` on, in these racks (`a,b,c`).

    With None they take the default ports if these are free, else any. Raises UserError with the
    reason of a failure.
    """
    first, registry = wanted_ports(port)
    options = StartOptions(
        data_dir,
        DEFAULT_BROKERS,
        port=first,
        registry_port=registry,
        secure=secure,
        racks=racks,
    )
    try:
        return _started(options)
    except UserError as problem:
        if _IN_USE not in str(problem):
            raise
    # Another program took a port after the check.
    return _started(replace(options, port=port or 0, registry_port=0))


def start_one_broker(
    data_dir: Path, overrides: tuple[str, ...], *, secure: bool = False
) -> LocalCluster:
    """Start one broker on free ports, with these settings (`key=value`). Raises UserError."""
    return _started(
        StartOptions(data_dir, 1, port=0, registry_port=0, overrides=overrides, secure=secure)
    )


def start_on_free_ports(options: StartOptions) -> LocalCluster:
    """Start a cluster; ports that the options leave open are free ones. Raises UserError."""
    freely = replace(
        options,
        port=options.port or 0,
        registry_port=options.registry_port or 0,
        dashboard_port=options.dashboard_port or 0,
    )
    for left in reversed(range(_ATTEMPTS)):
        try:
            return _started(freely)
        except UserError as problem:
            if not left or _IN_USE not in str(problem):
                raise  # else another program took a port after it was chosen
    raise AssertionError


def remove_cluster(data_dir: Path) -> None:
    """Stop the cluster, if it runs, and remove its directory, chosen by `own_directory`."""
    with handled_by(signal.SIG_IGN):  # cleaning up is short and must not be interrupted
        LocalCluster(StartOptions(data_dir)).close()


def wanted_ports(port: int | None) -> tuple[int, int]:
    """The ports of broker 0 and of the registry, 0 for any."""
    first = BROKER_PORT if port is None else port
    return (
        first if port is not None or _are_free(first, DEFAULT_BROKERS) else 0,
        REGISTRY_PORT if _are_free(REGISTRY_PORT, 1) else 0,
    )


def _started(options: StartOptions) -> LocalCluster:
    try:
        return LocalCluster(options).start()
    except CommandFailed as failed:
        raise UserError(f"the cluster did not start: {failed.reason}") from None


def _are_free(first: int, count: int) -> bool:
    try:
        choose_ports(WantedPort("", LOOPBACK, first + number, "") for number in range(count))
    except UserError:
        return False
    return True
