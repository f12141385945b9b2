"""What `start` and `status` print about a cluster: its processes, its addresses, and next steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cluster.datadir.dashboard_access import LOOPBACK_NAMES
from cluster.datadir.paths import CLIENT_FILES, REGISTRY_JAAS, REGISTRY_PROPERTIES, DataDir
from cluster.model.recovery_progress import RecoveryProgress
from cluster.model.security import SecurityProtocol
from cluster.runtime.installation import launcher, shown
from cluster.runtime.text_table import table_text

_CLIENT_CONFIG: Final = "client.properties"
_UNPROTECTED: Final = {
    "PLAINTEXT": "authentication",
    "SASL_PLAINTEXT": "encryption",
}
"""What listeners of these protocols lack; ssl.client.auth decides for those with certificates."""


def table(state: Mapping[str, Any]) -> str:
    """The table of all processes of a cluster, from the answer to `status`."""
    data_dir = DataDir(Path(state["data_dir"]))
    rows: list[tuple[str, ...]] = []
    registry = state["registry_process"]
    if registry is None:
        rows.append(("registry", "not ours", state["registry"], "", "-", "-"))
    else:
        rows.append(_row("registry", registry, data_dir.log("registry")))
    for broker in state["brokers"]:
        name, log = f"broker {broker['id']}", data_dir.log(f"broker-{broker['id']}")
        first, *others = _addresses(broker)
        rows.append(_row(name, broker, log, first))
        rows += [("", "", address, "", "", "") for address in others]
    dashboard = state.get("dashboard_process")
    if dashboard is not None:
        rows.append(_row("dashboard", dashboard, data_dir.log("dashboard")))
    headings: tuple[str, ...] = ("NODE", "STATUS", "ADDRESS", "RACK", "PID", "LOG")
    if not any(broker.get("rack") for broker in state["brokers"]):
        at = headings.index("RACK")
        headings, *rows = [(*row[:at], *row[at + 1 :]) for row in (headings, *rows)]
    return table_text(headings, rows)


def how_to_go_on(state: Mapping[str, Any], *, foreground: bool) -> str:
    """The text after a start: process table, bootstrap servers, examples, paths, how to stop."""
    data_dir = DataDir(Path(state["data_dir"]))
    replicas = min(3, len(state["brokers"]))
    command = launcher(data_dir.path)
    stop = f"`{command} stop`"
    if foreground:
        stop = f"Ctrl-C, or {stop} elsewhere"
    needed = _needed_protocol(state)
    config = f" --command-config {_CLIENT_CONFIG}" if needed else ""
    return f"""
{table(state)}

BOOTSTRAP={state["bootstrap"]}
{dashboard_lines(state)}
{_client_files(state, data_dir)}{_client_needs(needed)}Try it:
  {command} topics --create --topic hello --partitions 3 --replication-factor {replicas}{config}
  echo "hello, world" | {command} produce --topic hello{config}
  {command} consume --topic hello --from-beginning --max-messages 1{config}

Data is in {shown(data_dir.path)}, logs are in {shown(data_dir.logs)}. {_reach(state)}
Stop with {stop}; data stays until `stop --purge`.
"""


def dashboard_lines(state: Mapping[str, Any]) -> str:
    """The dashboard's address, and its password file if it requires one; empty without one."""
    url = state.get("dashboard")
    if url is None:
        return ""
    login = state.get("dashboard_login")
    if login is None:
        return f"DASHBOARD={url}\n"
    path = shown(Path(login["password_file"]))
    return f"DASHBOARD={url}\n  (asks for user {login['user']} and the password in {path})\n"


def _addresses(broker: Mapping[str, Any]) -> list[str]:
    """The addresses of a broker's listeners, with their names if there are several."""
    listeners = broker.get("listeners") or [broker]
    if len(listeners) == 1:
        return [f"{each['host']}:{each['port']}" for each in listeners]
    return [f"{each['name']}://{each['host']}:{each['port']}" for each in listeners]


def _row(
    node: str, process: Mapping[str, Any], log: Path, address: str | None = None
) -> tuple[str, ...]:
    pid = "-" if process["pid"] is None else str(process["pid"])
    return (
        node,
        _status(process),
        address or f"{process['host']}:{process['port']}",
        process.get("rack") or "",
        pid,
        shown(log),
    )


def _status(process: Mapping[str, Any]) -> str:
    recovery = process.get("recovery")
    if recovery is None:
        return str(process["state"])
    return RecoveryProgress.from_json(recovery).text


def _reach(state: Mapping[str, Any]) -> str:
    away = [
        each
        for broker in state["brokers"]
        for each in broker.get("listeners", ())
        if each["listens_on"] not in LOOPBACK_NAMES
    ]
    others = [
        f"The {name} listens on {host}."
        for name in ("registry", "dashboard")
        if (process := state.get(f"{name}_process")) is not None
        and (host := process.get("listens_on", process["host"])) not in LOOPBACK_NAMES
    ]
    if not away and not others:
        return "Only this machine can connect."
    return " ".join([_brokers_reach(away), *others] if away else others)


def _brokers_reach(away: Sequence[Mapping[str, Any]]) -> str:
    hosts = ", ".join(sorted({each["listens_on"] for each in away}))
    text = f"Brokers listen on {hosts}"
    for protocol, what in _UNPROTECTED.items():
        names = sorted({each["name"] for each in away if each["protocol"] == protocol})
        if names:
            text += f"; there is no {what} on {', '.join(names)}"
    return f"{text}."


def _needed_protocol(state: Mapping[str, Any]) -> SecurityProtocol | None:
    """The protocol for clients at the bootstrap servers, if there are files for them."""
    if state.get("secure"):
        return None
    for broker in state["brokers"]:
        for each in broker.get("listeners", ()):
            if f"{each['host']}:{each['port']}" in state["bootstrap"].split(","):
                protocol = SecurityProtocol(each["protocol"])
                return None if protocol is SecurityProtocol.PLAINTEXT else protocol
    return None


def _client_needs(protocol: SecurityProtocol | None) -> str:
    """The settings of a client that connects by this protocol."""
    if protocol is None:
        return ""
    parts = [f"security.protocol={protocol}"]
    if protocol.is_encrypted:
        parts.append("the authority to trust (ssl.truststore.location or ssl.ca.location)")
    if protocol.has_sasl:
        parts.append("a login (sasl.mechanism, and sasl.jaas.config or sasl.username)")
    return f"Clients, and these commands, need in {_CLIENT_CONFIG}: {', '.join(parts)}.\n\n"


def _client_files(state: Mapping[str, Any], files: DataDir) -> str:
    """The files with settings for a secure cluster's clients; empty for other clusters."""
    if not state.get("secure"):
        return ""
    lines = [f"Clients need TLS and a password; files for them are in {shown(files.clients)}:"]
    purposes = dict(CLIENT_FILES)
    if files.registry_properties.exists():
        purposes[REGISTRY_PROPERTIES] = "clients of the registry: --zk-tls-config-file of tools"
        purposes[REGISTRY_JAAS] = "and their login: -Djava.security.auth.login.config"
    lines += [f"  {name:<22} {purpose}" for name, purpose in purposes.items()]
    return "\n".join(lines) + "\n\n"
