"""`status`: the processes, their addresses and the controller; exit status 1 if none runs."""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster.runtime.installation import shown
from cluster.supervisor.console import table
from cluster.supervisor.readiness import View, ask_broker
from cluster.tools.arguments import add_command, data_dir, running_state

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_ANSWER_TIMEOUT_S: Final = 0.25


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `status` and its options to `subparsers`."""
    parser = add_command(subparsers, "status", "status", "status --json")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the state of the running cluster and return 0. Raises NotRunning."""
    state = running_state(args)
    view = _ask_some_broker(state)
    state["controller"] = view.controller if view and view.controller >= 0 else None
    state["cluster_id"] = state["cluster_id"] or (view.cluster_id if view else None)
    if args.json:
        print(json.dumps(state, indent=2))
        return 0
    controller = state["controller"]
    who = "no controller" if controller is None else f"controller is broker {controller}"
    print(f"Cluster {state['cluster_id']} in {shown(data_dir(args).path)}: {state['state']}, {who}")
    print(f"\n{table(state)}\n\nBOOTSTRAP={state['bootstrap']}")
    return 0


def _ask_some_broker(state: Mapping[str, Any]) -> View | None:
    for broker in state["brokers"]:
        if broker["state"] == "running":
            view = ask_broker(broker["host"], broker["port"], _ANSWER_TIMEOUT_S)
            if view is not None:
                return view
    return None
