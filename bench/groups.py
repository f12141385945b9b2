"""Consumer groups, beside Apache Kafka from its jars in the same run, by the same client.

    PYTHONPATH=. .venv/bin/python bench/groups.py [--small] [--rounds 2] [--only one,newer,...]

Two clusters of three brokers run at the same time and are measured in turns: how fast a large group
settles and what its heartbeats and commits cost the coordinator (`one`; by KIP-848 `newer`), a
thousand small groups (`many`), and what other clients feel while a broker takes over a coordinator
with a million committed offsets (`load`, once). Prints one table: every figure, lowest to highest
of the rounds, and how the medians compare. MILENA_TEST_INSTALL=1 fetches Kafka's jars; without them
this project is measured alone.
"""

import argparse
import asyncio
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.group_client import (
    Connection,
    Member,
    Place,
    Problem,
    check_commit,
    commit_frame,
    create_topic,
    expect,
    fetch_offset,
    find_coordinator,
    places,
)
from bench.group_systems import BROKERS, KafkaSystem, OwnSystem, System, cpu_seconds, resident_mb
from bench.newer_members import INTERVAL_S, NewerMember, serves_newer_protocol, settle_newer
from bench.partitions import Bystander, bystander_topic
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.error_codes import ErrorCode
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC

TOPIC: Final = "bench"
INITIAL_DELAY_S: Final = 1.0
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": str(int(INITIAL_DELAY_S * 1000)),
    "offsets.topic.replication.factor": str(BROKERS),
    "offsets.topic.segment.bytes": str(1 << 30),  # what is to be loaded is not compacted before
}
OFFSETS_PER_COMMIT: Final = 200
STOPPED: Final = 1
"""The broker whose coordinator another one takes over: not 0, which is Kafka's controller."""
DEADLINE_S: Final = 120.0

Figures = dict[str, float]
Beating = Member | NewerMember


class Row(NamedTuple):
    """How a figure is called and printed, and what is aimed at."""

    name: str
    form: str
    aim: str = ""


class Sizes(NamedTuple):
    """How much of everything."""

    members: int = 100
    partitions: int = 200
    rate: int = 5_000
    seconds: float = 4.0
    groups: int = 1_000
    offsets: int = 1_000_000


SMALL: Final = Sizes(20, 40, 1_000, 1.0, 100, 50_000)


def rows(sizes: Sizes) -> dict[str, Row]:
    """Every row of the table, by the name of its figure."""
    members, partitions, rate, seconds, groups, offsets = sizes
    return {
        "settle": Row(
            f"{members} members, {partitions} partitions: all settled after the initial delay",
            "{:.0f} ms",
            "< 1,000",
        ),
        "beat_rate": Row(f"heartbeats of these members, {rate:,}/s wanted", "{:,.0f}/s"),
        "beat_cpu": Row("  the coordinator's processor time", "{:.0%} of a core", "< 50 %"),
        "beat_p99": Row("  p99", "{:.2f} ms"),
        "commit_rate": Row(
            "commits, three replicas, one in flight of each member", "{:,.0f}/s", ">= 2,000"
        ),
        "commit_share": Row("  commits in one append", "{:.1f}"),
        "commit_cpu": Row("  the coordinator's processor time of a commit", "{:.0f} us"),
        "commit_p50": Row("  p50", "{:.1f} ms"),
        "commit_p99": Row("  p99", "{:.1f} ms"),
        "lone_p50": Row("commits of one member alone: p50", "{:.2f} ms"),
        "lone_p99": Row("  p99", "{:.2f} ms"),
        "newer_settle": Row(
            f"newer protocol, {members} members that beat every {INTERVAL_S:g} s: all settled",
            "{:.0f} ms",
            "< 1,000",
        ),
        "newer_rate": Row(f"  their heartbeats, {rate:,}/s wanted", "{:,.0f}/s"),
        "newer_cpu": Row("  the coordinator's processor time", "{:.0%} of a core", "< 50 %"),
        "newer_p99": Row("  p99", "{:.2f} ms"),
        "many_settle": Row(
            f"{groups:,} groups of 3 members: all settled, with the initial delay", "{:.2f} s"
        ),
        "many_work": Row("  processor time of all brokers for it", "{:.2f} s"),
        "many_slowest": Row("  slowest group after its delay", "{:.0f} ms"),
        "many_memory": Row("  memory of all brokers: more than before", "{:.0f} MB"),
        "many_rate": Row("  heartbeats, one of each member every 3 s", "{:,.0f}/s"),
        "many_cpu": Row("  their processor time in all brokers", "{:.0%} of a core"),
        "many_p99": Row("  their p99", "{:.2f} ms"),
        "load_fill": Row(
            f"{offsets:,} offsets committed, {OFFSETS_PER_COMMIT} at a time", "{:.1f} s"
        ),
        "load_gone": Row("their coordinator stops: the group has none for", "{:.2f} s"),
        "load": Row(f"  the next one loads {offsets:,} offsets", "{:.2f} s", "< 10"),
        "load_cpu": Row("  its processor time meanwhile", "{:.2f} s"),
        "load_memory": Row("  its memory: more than before", "{:.0f} MB"),
        "load_quiet": Row(f"  bystander's longest wait in {seconds:g} s before", "{:.1f} ms"),
        "load_p99": Row("  bystander's p99 meanwhile", "{:.2f} ms"),
        "load_longest": Row("  bystander's longest wait meanwhile", "{:.1f} ms", "< 20"),
    }


class Bench:
    """One system under test."""

    def __init__(self, system: System, sizes: Sizes) -> None:
        self._system = system
        self._sizes = sizes
        self._homes: Mapping[int, Place] = {}
        """Where each partition of `__consumer_offsets` is."""
        self._round = 0

    @asynccontextmanager
    async def _connections(self, brokers: Iterable[int]) -> AsyncIterator[list[Connection]]:
        addresses = [self._system.addresses[broker] for broker in brokers]
        opened = [await Connection.open(address) for address in addresses]
        try:
            yield opened
        finally:
            for connection in opened:
                connection.close()

    def _home(self, group: str) -> int:
        """The broker that coordinates a group."""
        return self._homes[partition_of(group, len(self._homes))].leader

    async def prepare(self) -> None:
        """Wait until every broker serves, and create the topics."""

        async def all_serve() -> bool:
            async with self._connections(range(BROKERS)) as connections:
                return all([await find_coordinator(one, "any") is not None for one in connections])

        await until(all_serve, "coordinators")
        async with self._connections([0]) as [connection]:
            replicas = [[number % BROKERS] for number in range(self._sizes.partitions)]
            await self._create_topic(TOPIC, replicas)

            async def is_there() -> bool:
                self._homes = await places(connection, CONSUMER_OFFSETS_TOPIC)
                leaders = {home.leader for home in self._homes.values()}
                known = await places(connection, TOPIC)
                return leaders == set(range(BROKERS)) and len(known) == self._sizes.partitions

            await until(is_there, "leaders of all partitions")

    async def _create_topic(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        """Whichever broker is the controller."""
        async with self._connections(range(BROKERS)) as connections:
            errors = [await create_topic(one, name, replicas) for one in connections]
        if ErrorCode.none not in errors:
            raise Problem(f"creating {name}: {errors}")

    # -- one large group ---------------------------------------------------------------------------

    async def one(self) -> Figures:
        """A large group: settles, beats, commits."""
        self._round += 1
        group = f"one-{self._round}"
        home = self._home(group)
        async with self._connections([home] * self._sizes.members) as connections:
            members = [Member(one, group, TOPIC, self._sizes.partitions) for one in connections]
            figures: Figures = {}
            figures["settle"] = await settle(members) * 1e3
            numbers = sorted(number for member in members for number in member.assigned)
            if numbers != list(range(self._sizes.partitions)):
                raise Problem("partitions are not assigned once each")
            figures |= await self._beats(members, home, "beat")
            figures |= await self._commits(members, home)
            figures |= await self._lone_commits(members[0])
            await asyncio.gather(*(member.leave() for member in members))
        return figures

    async def _beats(self, members: Sequence[Beating], home: int, name: str) -> Figures:
        process = self._system.process(home)
        interval_s = len(members) / self._sizes.rate
        await beat(members, interval_s, self._sizes.seconds / 2)  # Java compiles what is used
        began, before = time.perf_counter(), cpu_seconds(process)
        waits = await beat(members, interval_s, self._sizes.seconds)
        seconds = time.perf_counter() - began
        return {
            f"{name}_rate": len(waits) / seconds,
            f"{name}_cpu": (cpu_seconds(process) - before) / seconds,
            f"{name}_p99": quantile(waits, 0.99) * 1e3,
        }

    async def _commits(self, members: Sequence[Member], home: int) -> Figures:
        process = self._system.process(home)
        number = partition_of(members[0].group, len(self._homes))
        log = self._system.log_dir(home) / f"{CONSUMER_OFFSETS_TOPIC}-{number}"
        await commit(members, self._sizes.seconds / 2)
        appends, began, before = batch_count(log), time.perf_counter(), cpu_seconds(process)
        waits = await commit(members, self._sizes.seconds)
        seconds = time.perf_counter() - began
        return {
            "commit_rate": len(waits) / seconds,
            "commit_share": len(waits) / (batch_count(log) - appends),
            "commit_cpu": (cpu_seconds(process) - before) / len(waits) * 1e6,
            "commit_p50": quantile(waits, 0.5) * 1e3,
            "commit_p99": quantile(waits, 0.99) * 1e3,
        }

    async def _lone_commits(self, member: Member) -> Figures:
        waits = await commit([member], self._sizes.seconds / 2)
        return {
            "lone_p50": quantile(waits, 0.5) * 1e3,
            "lone_p99": quantile(waits, 0.99) * 1e3,
        }

    # -- one large group of the newer protocol -----------------------------------------------------

    async def newer(self) -> Figures:
        """A large group of the newer protocol, where it is served: settles and beats."""
        self._round += 1
        group = f"newer-{self._round}"
        home = self._home(group)
        async with self._connections([home] * self._sizes.members) as connections:
            if not await serves_newer_protocol(connections[0]):
                return {}
            members = [NewerMember(one, group, TOPIC) for one in connections]
            seconds = await settle_newer(members, self._sizes.partitions, DEADLINE_S)
            figures = {"newer_settle": seconds * 1e3}
            figures |= await self._beats(members, home, "newer")
            await asyncio.gather(*(member.leave() for member in members))
        return figures

    # -- many groups -------------------------------------------------------------------------------

    async def many(self) -> Figures:
        """Many groups of three members, all at once."""
        self._round += 1
        names = [f"many-{self._round}-{number}" for number in range(self._sizes.groups)]
        homes = [self._home(name) for name in names for _ in range(3)]
        async with self._connections(homes) as connections:
            members = [
                Member(connection, names[place // 3], TOPIC, self._sizes.partitions)
                for place, connection in enumerate(connections)
            ]
            groups = [members[place : place + 3] for place in range(0, len(members), 3)]
            processes = [self._system.process(broker) for broker in range(BROKERS)]
            memory, began = resident_mb(self._system), time.perf_counter()
            before = sum(map(cpu_seconds, processes))
            settled = await asyncio.gather(*(settle(group) for group in groups))
            figures = {
                "many_settle": time.perf_counter() - began,
                "many_work": sum(map(cpu_seconds, processes)) - before,
                "many_slowest": max(settled) * 1e3,
                "many_memory": resident_mb(self._system) - memory,
            }
            began, before = time.perf_counter(), sum(map(cpu_seconds, processes))
            waits = await beat(members, 3.0, 6.0)
            seconds = time.perf_counter() - began
            figures["many_rate"] = len(waits) / seconds
            figures["many_cpu"] = (sum(map(cpu_seconds, processes)) - before) / seconds
            figures["many_p99"] = quantile(waits, 0.99) * 1e3
            await asyncio.gather(*(member.leave() for member in members))
        return figures

    # -- a coordinator taken over ------------------------------------------------------------------

    async def load(self) -> Figures:
        """Fill a partition with committed offsets, and stop its coordinator. Can be done once."""
        number, home = next(
            (number, home)
            for number, home in self._homes.items()
            if home.leader == home.replicas[0] == STOPPED
        )
        heir = home.replicas[1]
        groups = self._groups_in(number, max(1, self._sizes.offsets // OFFSETS_PER_COMMIT))
        figures: Figures = {}
        began = time.perf_counter()
        async with self._connections([STOPPED] * 8) as connections:
            per_commit = min(OFFSETS_PER_COMMIT, self._sizes.partitions)
            frames = iter(
                [commit_frame(group, TOPIC, offsets_of(group, per_commit)) for group in groups]
            )
            await asyncio.gather(*(fill(connection, frames) for connection in connections))
        figures["load_fill"] = time.perf_counter() - began
        process = self._system.process(heir)
        async with self._connections([heir]) as [connection]:
            await self._create_topic(bystander_topic(0), [[heir]])
            await asyncio.sleep(2)
            with Bystander([self._system.addresses[heir]]) as bystander:
                await asyncio.sleep(1)
                began = time.monotonic()
                await asyncio.sleep(self._sizes.seconds)
                quiet = bystander.waits_ms(began, time.monotonic())
                memory, before = process.memory_info().rss, cpu_seconds(process)
                began = time.monotonic()
                self._system.stop_broker(STOPPED)
                loading, loaded = await self._watch(connection, groups[-1])
                spent = cpu_seconds(process) - before
                waits = bystander.waits_ms(began, loaded + 0.5)
            for group in groups[:: max(1, len(groups) // 100)]:
                error, offset = await fetch_offset(connection, group, TOPIC, 0)
                expect(error, f"offsets of {group}")
                if offset != offsets_of(group, 1)[0]:
                    raise Problem(f"{group} has offset {offset}")
        return figures | {
            "load_gone": loaded - began,
            "load": loaded - loading,
            "load_cpu": spent,
            "load_memory": (process.memory_info().rss - memory) / 1e6,
            "load_quiet": max(quiet),
            "load_p99": quantile(waits, 0.99),
            "load_longest": max(waits),
        }

    def _groups_in(self, number: int, count: int) -> list[str]:
        """Names of groups that one partition keeps."""
        found: list[str] = []
        candidate = 0
        while len(found) < count:
            name = f"load-{candidate}"
            candidate += 1
            if partition_of(name, len(self._homes)) == number:
                found.append(name)
        return found

    async def _watch(self, connection: Connection, group: str) -> tuple[float, float]:
        """When a broker began to load a group, and when it had it, by the monotonic clock."""
        loading = 0.0
        deadline = time.monotonic() + DEADLINE_S
        while (now := time.monotonic()) < deadline:
            error, _ = await fetch_offset(connection, group, TOPIC, 0)
            if error is ErrorCode.none:
                return loading or now, time.monotonic()
            if error is ErrorCode.coordinator_load_in_progress:
                loading = loading or now
            elif error is not ErrorCode.not_coordinator:
                raise Problem(f"offsets of {group}: {error.name}")
            await asyncio.sleep(0.005)
        raise Problem("the offsets are not loaded")


# -- what clients do -------------------------------------------------------------------------------


async def settle(members: Sequence[Member]) -> float:
    """All members of a group join at once. Returns the seconds that they need after the delay.

    The delay begins with the first member, and is spent once more when others came meanwhile.
    """
    began = time.perf_counter()
    answered = min(await asyncio.gather(*(member.enter() for member in members)))
    ended = time.perf_counter()
    if len({member.generation for member in members}) != 1:
        raise Problem("members are not of one generation")
    delays = int((answered - began) / INITIAL_DELAY_S)
    return ended - began - delays * INITIAL_DELAY_S


async def beat(members: Sequence[Beating], interval_s: float, seconds: float) -> list[float]:
    """Each member sends a heartbeat every so often, one after another. Returns the waits in s."""
    waits: list[float] = []
    began = time.perf_counter()

    async def go_on(place: int, member: Beating) -> None:
        frame = member.frame()
        due = began + interval_s * place / len(members)
        while due < began + seconds:
            await asyncio.sleep(due - time.perf_counter())
            sent = time.perf_counter()
            member.check(await member.connection.send(frame))
            waits.append(time.perf_counter() - sent)
            due += interval_s

    await asyncio.gather(*(go_on(*each) for each in enumerate(members)))
    return waits


async def commit(members: Sequence[Member], seconds: float) -> list[float]:
    """Each member commits again when its last commit is answered. Returns the waits in s."""
    waits: list[float] = []
    end = time.perf_counter() + seconds

    async def go_on(member: Member) -> None:
        offset = 0
        while (sent := time.perf_counter()) < end:
            offset += 1
            check_commit(await member.connection.send(member.commit_frame(offset)))
            waits.append(time.perf_counter() - sent)

    await asyncio.gather(*map(go_on, members))
    return waits


async def fill(connection: Connection, frames: Iterable[bytes]) -> None:
    """Send commits one after another, until none is left."""
    for frame in frames:
        check_commit(await connection.send(frame))


def offsets_of(group: str, count: int) -> dict[int, int]:
    """What a group commits for the first partitions of the topic."""
    base = int(group.rpartition("-")[2]) * 1000
    return {number: base + number for number in range(count)}


def batch_count(directory: Path) -> int:
    """How many batches a partition's log has."""
    count = 0
    for path in directory.glob("*.log"):
        with path.open("rb") as log:
            while len(head := log.read(12)) == 12:
                _, size = struct.unpack(">qi", head)
                if size == 0:  # room taken for what comes
                    break
                log.seek(size, os.SEEK_CUR)
                count += 1
    return count


def quantile(values: Sequence[float], part: float) -> float:
    """By nearest rank; `part` is from 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask again and again. Raises Problem when it takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            if await condition():
                return
        except (OSError, Problem):
            pass
        await asyncio.sleep(0.1)
    raise Problem(f"waited {DEADLINE_S:g} s for {what}")


# -- the table -------------------------------------------------------------------------------------


def report(found: Mapping[str, Sequence[Figures]], sizes: Sizes) -> None:
    """Print the table of all systems' figures; the first system is ours."""
    names = list(found)
    heads = ["what", *names, *(["ratio"] if len(names) > 1 else []), "aim"]
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join("---" for _ in heads) + " |")
    for key, row in rows(sizes).items():
        columns = [[each[key] for each in found[name] if key in each] for name in names]
        if not any(columns):
            continue
        cells = [row.name, *(spread(row.form, column) if column else "" for column in columns)]
        if len(columns) > 1:
            medians = [statistics.median(column) for column in columns if column]
            cells.append(f"{medians[0] / medians[1]:.2f}" if len(medians) > 1 else "")
        print("| " + " | ".join([*cells, row.aim]) + " |")


def spread(form: str, values: Sequence[float]) -> str:
    """The lowest and the highest value, or the only one."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} - {high}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2, help="of `one` and `many`")
    parser.add_argument("--only", default="one,newer,many,load", help="comma separated")
    parser.add_argument("--small", action="store_true", help="a fraction of each, to try it")
    parser.add_argument("--alone", action="store_true", help="without Kafka")
    options = parser.parse_args()
    sizes = SMALL if options.small else Sizes()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as temporary, ExitStack() as running:
        systems: list[System] = [OwnSystem(Path(temporary), SETTINGS)]
        if not options.alone:
            try:
                systems.append(KafkaSystem(Path(temporary), SETTINGS))
            except LookupError as problem:
                print(problem, file=sys.stderr)
        for system in systems:
            running.callback(system.close)
            system.start()
        found = asyncio.run(measure(systems, sizes, options.rounds, options.only.split(",")))
    report(found, sizes)


async def measure(
    systems: Sequence[System], sizes: Sizes, rounds: int, kinds: Sequence[str]
) -> dict[str, list[Figures]]:
    """Every figure of every system; the systems take turns."""
    benches = {system.name: Bench(system, sizes) for system in systems}
    found: dict[str, list[Figures]] = {name: [] for name in benches}
    for bench in benches.values():
        await bench.prepare()
    for kind in kinds:
        for _ in range(1 if kind == "load" else rounds):
            for name, bench in benches.items():
                began = time.monotonic()
                try:
                    found[name].append(await getattr(bench, kind)())
                except (Problem, OSError) as problem:
                    print(f"{name}: {kind} is left out: {problem!r}", file=sys.stderr)
                    continue
                print(f"{name}: {kind}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
