"""`events`: what happened to the processes of the running cluster, and what happens now."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from cluster.datadir.supervisor_socket import NotRunning
from cluster.runtime.installation import shown
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.views.amounts import duration
from cluster.views.event_text import event_line

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_POLL_S: Final = 0.5


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `events` and its options to `subparsers`."""
    parser = add_command(
        subparsers, "events", "events", "events --since 10m", "events --follow --json"
    )
    parser.add_argument(
        "--since", type=duration, metavar="SPAN", help="only those of the last 90s, 10m, 6h or 2d"
    )
    parser.add_argument("--follow", action="store_true", help="then print new ones until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="one object on each line, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the events, oldest first. Returns the exit status. Raises NotRunning."""
    state = running_state(args)
    now_ms = time.time_ns() // 1_000_000
    found = list(recent(state["events"], args.since, now_ms))
    for event in found:
        _print(event, as_json=args.json)
    if args.follow:
        for event in _following(args, state):
            _print(event, as_json=args.json)
        print("The cluster has stopped.", file=sys.stderr)
    elif not found and not args.json:
        log = shown(data_dir(args).log("supervisor"))
        print(f"No events in that time; {log} has older ones.", file=sys.stderr)
    return 0


def recent(
    events: Iterable[dict[str, Any]], since: timedelta | None, now_ms: int
) -> Iterator[dict[str, Any]]:
    """The events of the last `since`, or all of them."""
    begin_ms = 0 if since is None else now_ms - since.total_seconds() * 1000
    return (event for event in events if event["ts"] >= begin_ms)


def _following(args: argparse.Namespace, state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """New events, until the supervisor of `state` has ended."""
    supervisor = state["supervisor_pid"]
    seen = max((event["number"] for event in state["events"]), default=0)
    while True:
        time.sleep(_POLL_S)
        try:
            state = running_state(args)
        except NotRunning:
            return
        if state["supervisor_pid"] != supervisor:
            return
        for event in state["events"]:
            if event["number"] > seen:
                yield event
        seen = max((seen, *(event["number"] for event in state["events"])))


def _print(event: dict[str, Any], *, as_json: bool) -> None:
    print(json.dumps(event) if as_json else event_line(event), flush=True)
