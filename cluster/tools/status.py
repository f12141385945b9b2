"""`status`: the cluster's state, its processes and addresses, controller and groups.

Exit status 1 if no cluster runs; with `--check` it says how the cluster is.
"""

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cluster.compilation.build_files import BuildFiles
from cluster.compilation.variant import why_plain
from cluster.runtime.compiled import COMPILED, PLAIN
from cluster.runtime.installation import launcher, shown
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.views.client_states import read_brokers
from cluster.views.cluster_health import DEGRADED, DOWN, UP
from cluster.views.cluster_text import dashboard_lines, table
from cluster.views.event_text import event_line
from cluster.views.group_lags import GroupLags, group_lags, groups_table
from cluster.views.running_cluster import read_health

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_GROUPS_SHOWN: Final = 10
_EVENTS_SHOWN: Final = 5
_EXIT_STATUS: Final = {UP: 0, DOWN: 1, DEGRADED: 3}
"""Of `--check`; 2 is for options that are wrong, as everywhere."""
_PASSING: Final = 4


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `status` and its options to `subparsers`."""
    parser = add_command(subparsers, "status", "status", "status --json", "status --check")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")
    parser.add_argument(
        "--check",
        action="store_true",
        help="one line; exit status 0 if the cluster is up, 1 if it is down or does not run, 3 if"
        " it is degraded, 4 while it starts or stops",
    )


def run(args: argparse.Namespace) -> int:
    """Print the state of the running cluster and return the exit status. Raises NotRunning."""
    state = running_state(args)
    files = data_dir(args)
    health = read_health(files, state)
    status = _EXIT_STATUS.get(health.state, _PASSING) if args.check else 0
    if args.check and not args.json:
        print(f"Cluster {state['cluster_id']} is {health.state}: {health.text}")
        return status
    groups = group_lags(read_brokers(files), time.time_ns() // 1_000_000)
    note = "" if state.get("build") == COMPILED else why_plain(BuildFiles(), launcher())
    if args.json:
        state["build_note"] = note or None
        state["groups"] = [{name: group.fields[name] for name in _GROUP_FIELDS} for group in groups]
        state["health"] = health.to_json()
        print(json.dumps(state, indent=2))
        return status
    controller = state["controller"]
    who = "no controller" if controller is None else f"controller is broker {controller}"
    print(f"Cluster {state['cluster_id']} in {shown(files.path)}: {health.state}, {who}")
    for problem in health.problems:
        print(f"  ! {problem.text}")
    build = state.get("build", PLAIN)  # a supervisor of an older version does not say
    print(f"Runs {build} ({note})." if note else f"Runs {build}.")
    print(f"\n{table(state)}\n")
    events = state["events"][-_EVENTS_SHOWN:]
    if events:
        print("Last events (`events` shows more):")
        print("".join(f"  {event_line(each)}\n" for each in events))
    if groups:
        print(f"{_groups_text(groups)}\n")
    print(f"BOOTSTRAP={state['bootstrap']}")
    print(dashboard_lines(state), end="")
    return status


_GROUP_FIELDS: Final = (
    *("group", "type", "state", "members", "partitions", "partitions_unknown", "lag", "lag_max"),
    *("broker", "ts"),
)


def _groups_text(groups: Sequence[GroupLags]) -> str:
    """The groups that are furthest behind."""
    text = groups_table(groups[:_GROUPS_SHOWN])
    more = len(groups) - _GROUPS_SHOWN
    return text if more <= 0 else f"{text}\n... and {more:,} more: metrics --json"
