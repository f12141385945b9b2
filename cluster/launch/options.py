"""The options of `start`, each declared once: the parser, the record and command lines follow.

Light: the command line reads it before it knows whether anything is started.
"""

import argparse
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from cluster.launch.broker_ids import id_list
from cluster.model.addresses import BROKER_PORT, DASHBOARD_PORT, LOOPBACK, REGISTRY_PORT
from cluster.runtime.whole_numbers import at_least_one, port_number

DEFAULT_BROKERS: Final = 3
_FLAG: Final = "flag"
_ARGUMENT: Final = "argument"


def _option(flag: str, *, default: Any = None, **argument: Any) -> Any:
    """A field that `flag` sets; `argument` is for argparse's `add_argument`."""
    return field(default=default, metadata={_FLAG: flag, _ARGUMENT: argument})


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How to start a cluster; a port of 0 means any free port.

    `launch/listener_plan.py` combines host, advertised host and port with settings of listeners.
    """

    data_dir: Path
    brokers: int | None = _option(
        "--brokers",
        type=at_least_one,
        metavar="N",
        help=f"how many (default: as many as last time, else {DEFAULT_BROKERS})",
    )
    broker_ids: str | None = _option(
        "--broker-ids",
        type=id_list,
        metavar="ID[,ID...]",
        help="their ids, such as 1,5 or 100-102 (default: as last time, else 0, 1, ...)",
    )
    detach: bool = _option(
        "--detach", default=False, help="return once the cluster is ready; stop it with `stop`"
    )
    config: Path | None = _option(
        "--config",
        type=Path,
        metavar="FILE",
        help="properties for every broker: etc/server.properties, or Kafka's own",
    )
    overrides: tuple[str, ...] = _option(
        "--override",
        default=(),
        metavar="KEY=VALUE",
        help="one broker setting, stronger than the file; may be repeated",
    )
    """The last one of a key counts."""
    log_dirs: str | None = _option(
        "--log-dirs",
        metavar="DIR[,DIR...]",
        help="where brokers keep partitions, each in a directory of its own such as DIR/broker-0;"
        " below the data directory unless absolute (default: as last time, else that directory)",
    )
    """Stronger than `log.dirs` of the settings; see `datadir/log_dirs.py`."""
    racks: str | None = _option(
        "--racks",
        metavar="RACK[,RACK...]",
        help="racks of the brokers by id, repeated if there are more brokers; replicas are spread"
        ' over racks (default: as last time; "": none)',
    )
    """Stronger than `broker.rack` of the settings; see `launch/racks.py`."""
    secure: bool = _option(
        "--secure",
        default=False,
        help="TLS, a password and ACLs: makes certificates, a user who may do everything, and files"
        " for clients in DATA_DIR/clients; the data directory stays secure",
    )
    """Also in effect where the data directory holds a secure cluster."""
    host: str | None = _option(
        "--host", help=f"address brokers listen on (default: that of the file, else {LOOPBACK})"
    )
    advertised_host: str | None = _option(
        "--advertised-host",
        metavar="HOST",
        help="address clients are told (default: that of the file, else --host)",
    )
    port: int | None = _option(
        "--port",
        type=port_number,
        help="port of the first broker, the next ones follow; of several listeners that of the"
        f" first, the others move with it (default: as last time, else that of the file, else"
        f" {BROKER_PORT}; 0: any free ones, which later starts take again)",
    )
    dashboard_port: int | None = _option(
        "--dashboard-port",
        type=port_number,
        metavar="PORT",
        help=f"port of the dashboard (default: as last time, else {DASHBOARD_PORT}, or a free one"
        " where that is taken; 0: any free one)",
    )
    dashboard_host: str = _option(
        "--dashboard-host",
        default=LOOPBACK,
        metavar="HOST",
        help=f"address the dashboard listens on (default: {LOOPBACK}); it asks for a password on"
        " any address that other machines can reach, and on every one with --secure, SASL or ACLs",
    )
    dashboard_actions: bool = _option(
        "--dashboard-actions",
        default=False,
        help="let a dashboard that other machines can reach change quotas and kill brokers too",
    )
    has_dashboard: bool = _option("--no-dashboard", default=True, help="start no dashboard")
    registry_host: str = _option(
        "--registry-host",
        default=LOOPBACK,
        metavar="HOST",
        help=f"address the registry listens on (default: {LOOPBACK}); any address that other"
        " machines can reach needs --secure, and the registry then speaks TLS and takes logins"
        " only",
    )
    registry_port: int | None = _option(
        "--registry-port",
        type=port_number,
        metavar="PORT",
        help=f"port of the registry (default: as last time, else {REGISTRY_PORT}; 0: any free one)",
    )

    lifeline: int | None = _option("--lifeline", type=int, help=argparse.SUPPRESS)
    """The descriptor of a pipe; at its end the cluster stops and is removed. For `run` only."""

    @classmethod
    def of_arguments(cls, data_dir: Path, args: argparse.Namespace) -> Self:
        """The options that a parser made by `add_start_options` has read."""
        read = {name: getattr(args, name) for name in _flags() if hasattr(args, name)}
        read = {name: tuple(v) if isinstance(v, list) else v for name, v in read.items()}
        return cls(data_dir, **read)

    def arguments(self) -> list[str]:
        """The arguments of `start` with the same effect, without `--data-dir`."""
        words = []
        for each in fields(self):
            flag, value = each.metadata.get(_FLAG), getattr(self, each.name)
            if flag is None or value == each.default:
                continue
            if isinstance(value, bool):
                words.append(flag)
            else:
                values = value if isinstance(value, tuple) else (value,)
                words += [f"{flag}={one}" for one in values]
        return words


def add_start_options(
    parser: argparse.ArgumentParser,
    names: Collection[str] = (),
    helps: Mapping[str, str] | None = None,
) -> None:
    """Add the options of `start`, or only those of these field names; `helps` replaces texts."""
    for each in fields(StartOptions):
        if _FLAG not in each.metadata or (names and each.name not in names):
            continue
        argument = dict(each.metadata[_ARGUMENT])
        argument["help"] = (helps or {}).get(each.name, argument["help"])
        default = each.default
        if isinstance(default, bool):  # the flag alone turns the default around
            argument["action"] = "store_false" if default else "store_true"
        elif isinstance(default, tuple):
            argument["action"], default = "append", []
        parser.add_argument(each.metadata[_FLAG], dest=each.name, default=default, **argument)


def _flags() -> list[str]:
    return [each.name for each in fields(StartOptions) if _FLAG in each.metadata]
