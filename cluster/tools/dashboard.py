"""`dashboard`: prints the address of the running cluster's page, and opens it in a browser."""

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.views.cluster_text import dashboard_lines

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `dashboard` and its options to `subparsers`."""
    parser = add_command(subparsers, "dashboard", "dashboard", "dashboard --open")
    parser.add_argument("--open", action="store_true", help="open it in the browser, too")


def run(args: argparse.Namespace) -> int:
    """Print the address and, if it requires a login, user and password file. Raises UserError."""
    state = running_state(args)
    url = state.get("dashboard")
    if url is None:
        raise UserError(
            "the cluster runs without a dashboard: stop it, and start it without --no-dashboard"
            if state.get("dashboard_process") is None
            else "the dashboard could not start: see its log, then"
            f" `{launcher(data_dir(args).path)} restart dashboard`"
        )
    print(dashboard_lines(state).removeprefix("DASHBOARD="), end="")
    process = state["dashboard_process"]
    if process["state"] != "running":
        print(f"It is {process['state']}.", file=sys.stderr)
    if args.open:
        why = why_not_opened(os.environ, sys.platform)
        if why is None and not webbrowser.open(url):
            why = "no browser could be started"
        if why is not None:
            print(f"Not opened: {why}.{_from_elsewhere(os.environ, process)}", file=sys.stderr)
    return 0


def why_not_opened(environment: Mapping[str, str], platform: str) -> str | None:
    """The reason why no browser can show a window here; None where one can.

    Without this check a text browser might take the terminal over.
    """
    if platform == "linux" and not any(environment.get(name) for name in _DISPLAYS):
        return "there is no desktop session here"
    return None


def _from_elsewhere(environment: Mapping[str, str], process: Mapping[str, Any]) -> str:
    """How the machine reaches the page from which the user has logged in here by SSH."""
    if not environment.get("SSH_CONNECTION"):
        return ""
    port = process["port"]
    return f" On your own machine: `ssh -L {port}:{process['host']}:{port} HOST`"
