"""Which ports of the last start the next one takes again. Pure.

What `--port`, `--registry-port` and `--dashboard-port` have chosen stays until another is named,
also what `--port 0` has found. Ports of the settings or by default are looked up anew, and
`--override listeners=...` stands over a `--port` of an earlier start.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cluster.launch.listener_plan import LISTENERS
from cluster.launch.options import StartOptions
from cluster.runtime.ports import WantedPort
from cluster.runtime.whole_numbers import PORT_MAX

STATE_KEY: Final = "chosen_ports"
_OPTIONS: Final = ("port", "registry_port", "dashboard_port")


def with_ports_of_last_start(
    options: StartOptions, state: Mapping[str, Any] | None
) -> StartOptions:
    """The options, with the ports that earlier options have chosen where these name none."""
    chosen = (state or {}).get(STATE_KEY)
    if not isinstance(chosen, dict):
        return options
    has_listeners = any(each.partition("=")[0].strip() == LISTENERS for each in options.overrides)
    kept = {
        name: chosen[name]
        for name in _OPTIONS
        if getattr(options, name) is None
        and _is_port(chosen.get(name))
        and not (name == "port" and has_listeners)
    }
    return replace(options, **kept)


def was_chosen(want: WantedPort, given: StartOptions, completed: StartOptions) -> bool:
    """Whether a port is one of the last start, which no option names now."""
    name = want.flag.removeprefix("--").replace("-", "_")
    return getattr(given, name) is None and getattr(completed, name) is not None


def listener_ports(state: Mapping[str, Any] | None) -> dict[tuple[int, str], int]:
    """The ports at which the brokers listened last, by broker and listener."""
    return {
        (broker["id"], each["name"]): each["port"]
        for broker in (state or {}).get("brokers", ())
        for each in broker.get("listeners", ())
        if _is_port(each.get("port"))
    }


def chosen_ports(
    options: StartOptions, registry: int | None, dashboard: int | None
) -> dict[str, int]:
    """What the next start is to know: the ports that options have chosen.

    A `port` of 0 stands for those at which each broker listens. A port of the dashboard that was
    taken this time is wanted again.
    """
    found = {"registry_port": registry, "dashboard_port": dashboard}
    named = {name: getattr(options, name) for name in _OPTIONS}
    return {name: port or found.get(name) or 0 for name, port in named.items() if port is not None}


def _is_port(found: object) -> bool:
    return isinstance(found, int) and 0 <= found <= PORT_MAX
