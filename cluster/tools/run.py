"""`run`: a cluster for the time of one command, on free ports, removed at the end in any case."""

import argparse
import os
import signal
import sys
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from cluster.datadir.paths import DataDir
from cluster.datadir.removal import remove_all_but_logs, remove_data
from cluster.launch.options import StartOptions, add_start_options
from cluster.runtime.installation import DATA_DIR_VARIABLE, launcher, shown
from cluster.runtime.interrupts import handled_by
from cluster.runtime.lifeline import KEEP
from cluster.runtime.passed_signals import Ended, run_passing_signals
from cluster.tools.arguments import UsageError, add_command

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

BOOTSTRAP_VARIABLE: Final = "BOOTSTRAP_SERVERS"
REGISTRY_VARIABLE: Final = "ZOOKEEPER_CONNECT"
CLIENT_CONFIG_VARIABLE: Final = "MILENA_CLIENT_CONFIG"
JAVA_CONFIG_VARIABLE: Final = "MILENA_JAVA_CLIENT_CONFIG"
_LEFT_OUT: Final = ("data_dir", "detach", "lifeline")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `run` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "run",
        "run -- pytest tests",
        "run --brokers 1 -- sh -c 'echo hello | kcat -b $BOOTSTRAP_SERVERS -P -t greetings'",
        "run --secure --keep -- ./load.sh",
        data_dir_default="a temporary one",
    )
    variables = {
        BOOTSTRAP_VARIABLE: "the brokers, for bootstrap.servers",
        DATA_DIR_VARIABLE: "the data directory, so that these commands use the cluster",
        REGISTRY_VARIABLE: "the registry",
        CLIENT_CONFIG_VARIABLE: "with --secure: properties of librdkafka and of these commands",
        JAVA_CONFIG_VARIABLE: "with --secure: properties of Java clients",
    }
    parser.description = "\n".join(
        [
            "Starts a cluster, runs the command, stops the cluster and removes its data, also",
            "after Ctrl-C. The exit status is that of the command, 128+N if signal N ended it.",
            "\nThe command finds in its environment:",
            *(f"  {name:<26} {text}" for name, text in variables.items()),
        ]
    )
    parser.add_argument(
        "--keep", action="store_true", help="stop the cluster at the end, but keep its data"
    )
    names = [each.name for each in fields(StartOptions) if each.name not in _LEFT_OUT]
    add_start_options(
        parser,
        names,
        {
            "brokers": "how many (default: 3; a single one starts sooner)",
            "port": "port of the first broker (default: free ones)",
            "dashboard_port": "port of the dashboard (default: a free one)",
            "registry_port": "port of the registry (default: a free one)",
        },
    )
    parser.add_argument("words", nargs="...", metavar="-- COMMAND ...", help="what to run")
    parser.usage = f"{parser.prog} [options] -- COMMAND ..."


def run(args: argparse.Namespace) -> int:
    """Run the command with its cluster. Returns the command's exit status. Raises UserError."""
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise UsageError("name the command to run: run [OPTIONS] -- COMMAND ...")
    received: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, on_signal)
    from cluster.tools.own_cluster import own_directory, start_on_free_ports

    files = DataDir(own_directory(args.data_dir, "run"))
    reader, writer = os.pipe()  # nothing inherits `writer`: it is closed when this process ends
    options = replace(StartOptions.of_arguments(files.path, args), lifeline=reader)
    if args.keep:
        os.write(writer, KEEP)
    ended = None
    try:
        state = start_on_free_ports(options).state()
        os.close(reader)
        _say(f"{BOOTSTRAP_VARIABLE}={state['bootstrap']}, data in {shown(files.path)}")
        ended = run_passing_signals(words, {**os.environ, **variables_of(state, files)})
    except KeyboardInterrupt:
        ended = Ended(128 + (received or [signal.SIGINT])[0], was_interrupted=True)
    finally:
        with handled_by(signal.SIG_IGN):  # cleaning up is short and must not be interrupted
            _clean_up(files, ended, is_kept=args.keep)
    if ended.problem is not None:
        print(f"error: {ended.problem}", file=sys.stderr)
    return ended.status


def variables_of(state: dict[str, Any], files: DataDir) -> dict[str, str]:
    """What the command finds in its environment about the cluster."""
    found = {
        BOOTSTRAP_VARIABLE: state["bootstrap"],
        DATA_DIR_VARIABLE: str(files.path),
        REGISTRY_VARIABLE: state["registry"],
    }
    if state["secure"]:
        found[CLIENT_CONFIG_VARIABLE] = str(files.tools_properties)
        found[JAVA_CONFIG_VARIABLE] = str(files.java_properties)
    return found


def _clean_up(files: DataDir, ended: Ended | None, *, is_kept: bool) -> None:
    """Stop the cluster, if it runs, and remove what is not to stay.

    `ended` is None where the command was not run because the cluster did not start.
    """
    from cluster.local.local_cluster import LocalCluster

    LocalCluster(StartOptions(files.path)).end()
    if ended is None and files.logs.is_dir() and any(files.logs.iterdir()):
        with suppress(OSError):
            remove_all_but_logs(files)
        _say(f"Logs stay in {shown(files.logs)}")
        return
    if ended is None or not files.state_file.exists():
        with suppress(OSError):
            remove_data(files)
        return
    try:
        if is_kept:
            command = launcher(files.path)
            _say(
                f"Data stays in {shown(files.path)}: `{command} start` or `{command} stop --purge`"
            )
        elif ended.status == 0 or ended.was_interrupted or ended.problem is not None:
            remove_data(files)
        else:
            remove_all_but_logs(files)
            _say(f"The command ended with status {ended.status}. Logs stay in {shown(files.logs)}")
    except OSError as problem:
        _say(f"cannot remove all of {shown(files.path)}: {problem.filename}: {problem.strerror}")


def _say(text: str) -> None:
    """Print a line on stderr, because stdout belongs to the command."""
    print(text, file=sys.stderr, flush=True)
