"""A script that measures Milena beside Apache Kafka: its options, rounds, systems and report.

In each round both systems are started anew, with one broker and with three, one system at a time
and in another order than in the round before. Both are warmed up before anything but what is
measured cold.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka

from bench.beside_stage import QUICK, Load, Programs, Sizes, Stage
from bench.beside_systems import (
    KAFKA,
    MILENA,
    PORT_FLAG,
    ROOT,
    SYSTEMS,
    Place,
    System,
    checked_ports,
    serves,
)
from bench.beside_table import Row, check_section, marks_of, table, write_section
from bench.foreign_clients import JavaTools, found_kcat
from bench.kafka_server import HEAP, fetched_class_path
from cluster.model.errors import UserError
from cluster.runtime.interrupts import deferred_interrupt, handled_by
from cluster.runtime.whole_numbers import at_least_one, port_number
from tests.support.waiting import wait_until

START_S: Final = 120.0
TITLES: Final = {1: "One broker", 3: "Three brokers, three replicas"}
_GB: Final = 1e9
_TEXT_WIDTH: Final = 138

Found = dict[tuple[int, int], dict[str, list[float]]]
"""The values of each round: by load, figure and system."""


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP."""


class Script(NamedTuple):
    """What a script measures, and what the head of its report says."""

    module: str
    """Such as `bench.beside_kafka`."""
    title: str
    loads: Sequence[Load]
    warm_up: Callable[[Stage], None]
    preparation: Callable[[Sizes], str]
    """What happens in a round before it is measured: the end of a sentence about both systems."""
    clients: Callable[[Programs], str]
    """The names of the clients."""
    notes: str
    """The last sentences of the head."""


class Bench:
    """A run: what is measured, with what, and what was found."""

    def __init__(self, script: Script, options: argparse.Namespace) -> None:
        """Raises UserError for wrong use."""
        self._script = script
        self._options = options
        self._sizes = QUICK if options.quick else Sizes()
        self._rounds = options.rounds or (1 if options.quick else 3)
        self._loads = chosen_loads(script.loads, options.only)
        self._systems = [name for name in SYSTEMS if name in options.systems.split(",")]
        if not self._systems:
            raise UserError(f"--systems takes some of {','.join(SYSTEMS)}")
        if options.markdown:
            self._check_markdown(options.markdown)
        self._class_path = fetched_class_path()
        self._programs = Programs(
            JavaTools(self._class_path), found_kcat(), shutil.which("javac") is not None
        )
        self._found: Found = defaultdict(lambda: defaultdict(list))
        self._is_interrupted = False
        self._check_machine()

    def _check_markdown(self, path: Path) -> None:
        every = len(self._script.loads)
        is_whole = len(self._loads) == every and len(self._systems) == len(SYSTEMS)
        if path.exists() and (self._options.quick or not is_whole):
            raise UserError(
                f"{path} would lose its table: leave out --quick, --only and --systems, or name a"
                " new file"
            )
        check_section(path, marks_of(self._script.module))

    def _check_machine(self) -> None:
        directory = self._options.directory
        if not directory.is_dir():
            raise UserError(f"there is no directory {directory}: make it, or choose another")
        free, needed = shutil.disk_usage(directory).free / _GB, self._sizes.disk_gb
        if free < needed:
            raise UserError(
                f"{directory} has {free:.1f} GB free and {needed:g} are needed: choose another"
                " place with --directory"
            )
        checked_ports("a broker", self._options.port, 6)

    def run(self) -> str:
        """Measure everything. Returns the section for the documentation. Raises UserError."""
        with handled_by(self._interrupt):
            if "milena" in self._systems:
                compile_milena()
            for number in range(self._rounds):
                for brokers in TITLES:
                    names = self._systems if number % 2 == 0 else self._systems[::-1]
                    for name in names:
                        self._session(number, name, brokers)
        return "\n".join([*self._head(), *self._tables()])

    def _interrupt(self, *_: object) -> None:
        """Raise, and remember it: a library may mistake the exception for an error of its own."""
        self._is_interrupted = True
        raise Interrupted

    # -- one system --------------------------------------------------------------------------------

    def _session(self, number: int, name: str, brokers: int) -> None:
        """Start a system, measure all that is asked of it, and end it."""
        chosen = [load for load in self._loads if load.brokers == brokers]
        if not chosen:
            return
        began = time.monotonic()
        options = self._options
        directory = tempfile.mkdtemp(prefix="milena-bench-", dir=options.directory)
        try:
            place = Place(
                Path(directory), brokers, options.port, self._class_path, options.kafka_heap
            )
            self._measure(SYSTEMS[name](place), chosen)
        finally:
            with deferred_interrupt():
                shutil.rmtree(directory, ignore_errors=True)
        seconds = time.monotonic() - began
        say(f"round {number + 1} of {self._rounds}, {name}, {brokers} broker(s): {seconds:.0f} s")

    def _measure(self, system: System, loads: Sequence[Load]) -> None:
        try:
            stage = Stage(system, self._sizes, self._programs, self._start(system))
            for load in loads:
                if load.is_cold:
                    self._one(stage, load)
            warm = [load for load in loads if not load.is_cold]
            if warm:
                self._script.warm_up(stage)
            for load in warm:
                self._one(stage, load)
        finally:
            with deferred_interrupt():  # nothing stays behind, however often one presses Ctrl-C
                system.close()

    def _start(self, system: System) -> float:
        """Start a system. Returns the seconds until every broker lists all of them."""
        system.prepare()
        began = time.monotonic()
        system.start()

        def is_up() -> bool:
            system.check_alive()
            return serves(system)

        wait_until(is_up, f"the start of {system.name}", START_S)
        return time.monotonic() - began

    def _one(self, stage: Stage, load: Load) -> None:
        began = time.monotonic()
        try:
            values = load.run(stage)
        except Exception as problem:  # noqa: BLE001 - the other rows are worth having
            if self._is_interrupted:
                raise Interrupted from None
            reason = str(problem).splitlines()[0] if str(problem) else repr(problem)
            say(f"{stage.system.name}: {load.name} is left out: {reason}")
            return
        if self._is_interrupted:
            raise Interrupted
        texts = []
        for place, value in enumerate(values):
            if value is not None:
                found = self._found[self._script.loads.index(load), place]
                found[stage.system.name].append(value)
                figure = load.figures[place]
                text = f"{figure.form.format(value)} {figure.unit}"
                texts.append(f"{figure.name} {text}".strip())
        seconds = time.monotonic() - began
        say(f"{stage.system.name}, {load.name}: {', '.join(texts)}; took {seconds:.0f} s")

    # -- the report --------------------------------------------------------------------------------

    def _head(self) -> Iterator[str]:
        script = self._script
        yield f"## {script.title}: `.venv/bin/python -m {script.module}`"
        yield ""
        rounds = f"{self._rounds} rounds" if self._rounds > 1 else "One round"
        yield textwrap.fill(
            f"{rounds}{' of --quick' if self._options.quick else ''}; in each, both systems are"
            f" started anew, one at a time, and {script.preparation(self._sizes)}. Each cell is the"
            " median, with the lowest and the highest value in brackets. The ratio says how many"
            " times better the median of Milena is: above 1 Milena is better, below 1 Kafka,"
            " whether less or more of a thing is better.",
            _TEXT_WIDTH,
        )
        yield ""
        yield textwrap.fill(
            f"{milena_version()}, Python {platform.python_version()}; {KAFKA} on Java"
            f" {java_version()}, with the Java options of its start script and a heap of"
            f" {self._options.kafka_heap} a broker, every broker a controller. Clients:"
            f" {script.clients(self._programs)}. Machine:"
            f" {machine()}; clients run on the same cores. Both write to the page cache only, have"
            " their own defaults, and the same replicas, partitions and `min.insync.replicas` (2 of"
            f" 3). CPU and memory are those of all processes of a system. {script.notes}",
            _TEXT_WIDTH,
        )
        yield ""

    def _tables(self) -> Iterator[str]:
        names = [name for name in (MILENA, KAFKA) if name.split()[0].lower() in self._systems]
        for brokers, title in TITLES.items():
            rows = [
                Row(name, figure, self._found.get((self._script.loads.index(load), place), {}))
                for load in self._loads
                if load.brokers == brokers
                for place, (name, figure) in enumerate(load.row_names())
            ]
            if rows:
                yield f"### {title}"
                yield ""
                yield from table(rows, names)
                yield ""


def chosen_loads(loads: Sequence[Load], pattern: str) -> list[Load]:
    """The loads one of whose rows matches a regular expression. Raises UserError."""
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error as problem:
        raise UserError(f"--only takes a regular expression: {problem}") from None
    chosen = [
        load
        for load in loads
        if any(wanted.search(f"{TITLES[load.brokers]}: {name}") for name, _ in load.row_names())
    ]
    if not chosen:
        names = "; ".join(sorted({load.name for load in loads}))
        raise UserError(f"no row matches {pattern!r}; there are: {names}")
    return chosen


def compile_milena() -> None:
    """Have the request path compiled, which the first start would begin in the background."""
    command = [str(ROOT / "bin" / "cluster"), "compile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    say(lines[-1] if lines else f"{' '.join(command)} ended with status {done.returncode}")


def milena_version() -> str:
    """What `bin/cluster --version` prints, and the commit of a checkout."""
    version = _printed([str(ROOT / "bin" / "cluster"), "--version"]) or "Milena"
    commit = _printed(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    return f"{version} ({commit})" if commit else version


def java_version() -> str:
    """The version of the `java` that runs Kafka."""
    found = re.search(r'version "([^"]+)"', _printed(["java", "-version"]))
    return found[1] if found else "of an unknown version"


def machine() -> str:
    """Cores, memory and kernel."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {kernel}"


def _printed(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def say(text: str) -> None:
    """Print progress on stderr, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def librdkafka() -> str:
    """The library and its version."""
    return f"librdkafka {confluent_kafka.libversion()[0]}"


def run_script(script: Script, description: str) -> None:
    """The command line of a script: measure, and print the tables."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--rounds", type=at_least_one, metavar="N", help="default: 3")
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="measure what gives rows whose names a regular expression matches, such as"
        " 'acks=all' or 'three brokers.*java'",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="little of everything, to try it: its figures mean nothing",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the table to its place in FILE"
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="default: milena,kafka")
    parser.add_argument(
        "--kafka-heap", default=HEAP, metavar="SIZE", help=f"of each of Kafka's brokers; {HEAP}"
    )
    parser.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir()), help="where data is kept"
    )
    parser.add_argument(
        PORT_FLAG, type=port_number, default=0, help="first of six ports (default: free ones)"
    )
    options = parser.parse_args()
    try:
        text = Bench(script, options).run()
        print(text)
        if options.markdown:
            write_section(options.markdown, marks_of(script.module), text)
    except (UserError, AssertionError) as problem:
        sys.exit(f"error: {(str(problem).splitlines() or [repr(problem)])[0]}")
    except KeyboardInterrupt:
        sys.exit(130)
