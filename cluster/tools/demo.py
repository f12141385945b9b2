"""`demo`: shows the main features on a cluster of its own, and ends with commands to try next."""

import argparse
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cluster.launch.options import add_start_options
from cluster.model.addresses import BROKER_PORT
from cluster.model.errors import UserError
from cluster.runtime.installation import DATA_DIR_VARIABLE, chosen_data_dir, launcher, shown
from cluster.tools.arguments import add_command

if TYPE_CHECKING:
    from cluster.client.security import Servers
    from cluster.datadir.paths import DataDir
    from cluster.loadtest.noisy_neighbor import Phases
    from cluster.tools.arguments import Subparsers

TOPIC: Final = "machine.metrics"
QUOTA: Final = 1_048_576.0
_STEPS: Final = 6
_FEED_S: Final = 6.0
_SHORT_FEED_S: Final = 2.0


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `demo` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "demo",
        "demo",
        "demo --keep",
        "demo --short",
        data_dir_default=f"${DATA_DIR_VARIABLE}, else a temporary one",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster and its data as they are"
    )
    parser.add_argument("--short", action="store_true", help="shorter phases: under a minute")
    add_start_options(
        parser,
        ("secure", "port", "racks"),
        {
            "racks": "racks of the three brokers, as start --racks",
            "secure": "with TLS, a password and ACLs, as start --secure",
            "port": f"port of broker 0 (default: {BROKER_PORT}, or free ones if that is taken)",
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run all steps and return the exit status; Ctrl-C at any step leaves no process running."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    from cluster.datadir.paths import DataDir
    from cluster.tools.own_cluster import own_directory, remove_cluster

    files = DataDir(own_directory(args.data_dir or chosen_data_dir()))
    is_kept = False
    demo = _Demo(args, files)
    try:
        status = demo.run()
        is_kept = args.keep
    except KeyboardInterrupt:
        status = 130
    finally:
        if not is_kept:
            remove_cluster(files.path)
    if status == 130:
        print("\nInterrupted: the demo's cluster is stopped and its data are removed.")
    return status


class _Demo:
    """The steps in their order; printed times count from the start of the demo."""

    def __init__(self, args: argparse.Namespace, files: "DataDir") -> None:
        self._args = args
        self._files = files
        self._began = time.monotonic()
        self._step = 0
        self._has_windows = False
        self._report = files.path.with_name(f"{files.path.name}-report.html")

    def run(self) -> int:
        """Returns the exit status: 1 if the quota did not hold, or a step could not be done."""
        self._has_windows = self._prepare()
        state = self._start()
        self._feed(self._servers(state["bootstrap"]))
        holds = self._neighbors()
        is_reported = self._roll_up()
        self._announce("What to try next")
        print(self._next_steps())
        print(f"The demo took {time.monotonic() - self._began:.0f} s.")
        return 0 if holds and is_reported else 1

    def _prepare(self) -> bool:
        from cluster.tools.extra_packages import need_extra
        from cluster.tools.rollup import WINDOWS_EXTRA

        self._announce("Making sure that PyArrow is here (55 MB, on first use only)")
        try:
            need_extra(WINDOWS_EXTRA, "pyarrow")
        except UserError as problem:
            print(f"The rollup and the report will be left out: {problem}", flush=True)
            return False
        return True

    def _start(self) -> dict[str, Any]:
        from cluster.tools.own_cluster import start_on_usual_ports

        self._announce("Starting a registry and three brokers")
        secure = self._args.secure
        state = start_on_usual_ports(
            self._files.path, self._args.port, secure=secure, racks=self._args.racks
        ).state()
        if state.get("dashboard"):
            print(f"DASHBOARD={state['dashboard']} - open it and watch what follows")
        print(f"BOOTSTRAP={state['bootstrap']}, data in {shown(self._files.path)}", flush=True)
        return state

    def _servers(self, bootstrap: str) -> "Servers":
        from cluster.client.security import Servers
        from cluster.tools.kafka_connection import addresses, security_of

        security = security_of(argparse.Namespace(data_dir=self._files.path))
        return Servers(addresses(bootstrap), security)

    def _feed(self, servers: "Servers") -> None:
        from cluster.client.admin import Admin
        from cluster.client.topic_requests import create_topic
        from cluster.loadtest.machine_feed import feed_topic
        from cluster.runtime.clock import SystemClock

        seconds = _SHORT_FEED_S if self._args.short else _FEED_S
        self._announce(f"Feeding {TOPIC} with this machine's processes, for {seconds:g} s")
        with Admin(servers, "milena-demo") as admin:
            admin.controller(
                lambda client: create_topic(client, TOPIC, partitions=3, replication_factor=3)
            )
        count = feed_topic(servers.librdkafka(), TOPIC, seconds, SystemClock())
        print(f"{count} records, keyed by process name")

    def _neighbors(self) -> bool:
        from cluster.tools.load.display import display
        from cluster.tools.load.scenario import ScenarioOptions, neighbors, scenario_text
        from cluster.tools.load.topic import open_load_topic

        phases = self._phases()
        seconds = phases.alone + phases.settling + phases.limited + phases.unlimited
        self._announce(
            "Two clients, `noisy` with a produce quota of 1 MiB/s per broker and `polite` without,"
            f" for {seconds:g} s"
        )
        options = ScenarioOptions(QUOTA, phases, {"acks": "all"}, while_limited=self._explain)
        args = argparse.Namespace(
            data_dir=self._files.path,
            command_properties=[],
            topic=None,
            partitions=None,
            replication_factor=None,
            group=None,
            keep=self._args.keep,
        )
        with open_load_topic(args) as topic, display(5_000, is_silent=False) as progress:
            result = neighbors(topic, options, progress, _say)
        print(scenario_text(result))
        return result.holds

    def _explain(self) -> None:
        print(f"\n$ {launcher()} quotas explain --client-id noisy")
        self._command("quotas", "explain", "--client-id", "noisy")
        print(flush=True)

    def _roll_up(self) -> bool:
        self._announce("Rolling the brokers' metrics up, and reporting")
        if not self._has_windows or self._command("rollup") != 0:
            return False
        print()
        return self._command("quotas", "report", "--html", str(self._report)) == 0

    def _command(self, *words: str) -> int:
        from cluster.tools.main import main

        status = main(["--data-dir", str(self._files.path), *words])
        if status == 130:
            raise KeyboardInterrupt
        return status

    def _next_steps(self) -> str:
        lines = []
        if self._args.keep:
            command = launcher(self._files.path)
            lines += [
                f"  {command} quotas watch",
                f"  {command} quotas recommend --if producer_byte_rate=2MiB",
                f"  {command} load-test --client-id noisy --topic {TOPIC}",
                f"  {command} consume --topic {TOPIC} --from-beginning --max-messages 5",
                f"The cluster still runs. Stop it: {command} stop --purge",
            ]
        else:
            command = launcher()
            lines += [
                f"  {command} start --detach",
                f"  {command} load-test --scenario noisy-neighbour --quota 2MiB",
                f"  {command} quotas watch",
                "The demo's cluster is stopped and its data are removed; --keep leaves them.",
            ]
        if self._report.exists():
            lines.append(f"The report stays: {shown(self._report)}")
        return "\n".join(lines)

    def _phases(self) -> "Phases":
        from cluster.loadtest.noisy_neighbor import SHORT, Phases

        # Without the `unlimited` phase, so that the report ends with the throttled time.
        return replace(SHORT if self._args.short else Phases(), unlimited=0.0)

    def _announce(self, what: str) -> None:
        self._step += 1
        elapsed_s = time.monotonic() - self._began
        print(f"\n[{elapsed_s:5.1f} s] {self._step}/{_STEPS} {what}", flush=True)


def _say(text: str) -> None:
    print(text, flush=True)
