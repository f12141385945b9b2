"""`status`: processes and addresses, controller and groups; exit status 1 if no cluster runs."""

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cluster.runtime.installation import shown
from cluster.supervisor.console import dashboard_lines, table
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.views.client_states import read_brokers
from cluster.views.group_lags import GroupLags, group_lags, groups_table

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_GROUPS_SHOWN: Final = 10


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `status` and its options to `subparsers`."""
    parser = add_command(subparsers, "status", "status", "status --json")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the state of the running cluster and return 0. Raises NotRunning."""
    state = running_state(args)
    files = data_dir(args)
    groups = group_lags(read_brokers(files), time.time_ns() // 1_000_000)
    if args.json:
        state["groups"] = [{name: group.fields[name] for name in _GROUP_FIELDS} for group in groups]
        print(json.dumps(state, indent=2))
        return 0
    controller = state["controller"]
    who = "no controller" if controller is None else f"controller is broker {controller}"
    print(f"Cluster {state['cluster_id']} in {shown(files.path)}: {state['state']}, {who}")
    print(f"\n{table(state)}\n")
    if groups:
        print(f"{_groups_text(groups)}\n")
    print(f"BOOTSTRAP={state['bootstrap']}")
    print(dashboard_lines(state), end="")
    return 0


_GROUP_FIELDS: Final = (
    *("group", "type", "state", "members", "partitions", "partitions_unknown", "lag", "lag_max"),
    *("broker", "ts"),
)


def _groups_text(groups: Sequence[GroupLags]) -> str:
    """The groups that are furthest behind."""
    text = groups_table(groups[:_GROUPS_SHOWN])
    more = len(groups) - _GROUPS_SHOWN
    return text if more <= 0 else f"{text}\n... and {more:,} more: metrics --json"
