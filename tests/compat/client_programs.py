"""Programs in other languages that use Kafka clients: built once into a cache, driven by JSON.

A program reads requests from its stdin, one line of JSON each, and answers each with a line on its
stdout: `{"answer": ...}` or `{"error": text}`. A request names its action. Two actions go on until
stdin ends, and write a line for each record: `stream` produces numbered records, and writes those
that were acknowledged; `follow` writes what it reads.
"""

import base64
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from cluster.records.batch import BatchHeader, Compression, batches_of
from tests.compat.confluent_records import assigning_consumer, read_all
from tests.compat.installing import CACHE, may_install, need_beyond_pypi, one_at_a_time
from tests.compat.samples import COMPRESSIONS, NOW_MS, PARTITIONS, Sample, by_partition
from tests.support.broker_probes import fetched
from tests.support.kafka_wire import WireClient
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader
from tests.support.waiting import is_readable, wait_until

_HERE: Final = Path(__file__).parent
NPM_CI: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
_BUILD_DEADLINE_S: Final = 300.0
_DEADLINE_S: Final = 120.0


class ProgramFailed(AssertionError):
    """A program failed to carry out a request; the message contains its output."""


# -- building ---------------------------------------------------------------------------------


def built(
    sources: Path, *, fetch: Sequence[str], build: Sequence[str] = ()
) -> tuple[Path | None, str]:
    """Build a program in a copy of its sources by two commands, `fetch` and `build`.

    Returns the folder, or None and the reason. It is built where tests may install software, in a
    cache that is valid as long as the sources are unchanged. If fetching fails, that is returned as
    the reason; if building fails, the test fails.
    """
    files = sorted(path for path in sources.iterdir() if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    place = CACHE / f"{sources.name}-{digest.hexdigest()[:12]}"
    tool = fetch[0]
    if place.exists():
        return place, ""
    if not may_install():
        return None, f"{sources.name} are not here; MILENA_TEST_INSTALL=1 fetches them by {tool}"
    if shutil.which(tool) is None:
        return None, f"{sources.name} are not here, nor is {tool} to fetch them"
    with (
        one_at_a_time(tool),
        tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as workshop,
    ):
        if place.exists():
            return place, ""
        product = Path(workshop) / sources.name
        product.mkdir()
        for path in files:
            shutil.copy(path, product)
        problem = _run_quietly(fetch, product)
        if problem:
            return None, problem
        if build:
            problem = _run_quietly(build, product)
            assert not problem, problem
        product.rename(place)  # atomic, so the cache never holds half a build
    return place, ""


@functools.cache
def _go_programs() -> tuple[Path | None, str]:
    return built(
        _HERE / "go_clients",
        fetch=["go", "mod", "download"],
        build=["go", "build", "-trimpath", "-o", "go_clients", "."],
    )


def go_programs() -> Path:
    """The folder of `go_clients`, built once at most. Skips the running test without them."""
    need_beyond_pypi("clients in Go")
    directory, problem = _go_programs()
    if directory is None:
        pytest.skip(problem)
    return directory


@functools.cache
def _javascript_programs() -> tuple[Path | None, str]:
    if shutil.which("node") is None:
        return None, "there is no node"
    return built(_HERE / "javascript_clients", fetch=NPM_CI)


def javascript_programs() -> Path:
    """The folder of the programs for `node`, installed once at most. Skips as `go_programs`."""
    need_beyond_pypi("clients in JavaScript")
    directory, problem = _javascript_programs()
    if directory is None:
        pytest.skip(problem)
    return directory


def _run_quietly(command: Sequence[str], directory: Path) -> str:
    """An empty text, or why the command failed."""
    name = " ".join(command[:2])
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not finish within {_BUILD_DEADLINE_S:g} s"
    return "" if done.returncode == 0 else f"{name} failed: {done.stdout.strip()[-300:]}"


# -- asking -----------------------------------------------------------------------------------


class Transfer(NamedTuple):
    """What came of producing or consuming, as the client saw it."""

    records: list[Sample]
    offsets: list[int]
    elapsed_s: float
    throttle_ms: int  # the longest that a response asked to wait


class Placed(NamedTuple):
    """A record of a stream, and where it lies."""

    partition: int
    offset: int
    value: bytes


class RunningProgram:
    """A process and its pipes, by lines."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._unread = b""

    def close(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout, self._errors):
            pipe.close()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def write_line(self, told: object) -> None:
        """One line of JSON."""
        self._stdin.write(json.dumps(told).encode() + b"\n")
        self._stdin.flush()

    def end_input(self) -> None:
        """Close its stdin."""
        self._stdin.close()

    def read_line(self, deadline: float) -> Any:
        """The next line of JSON; None when it has ended. Raises ProgramFailed for an error."""
        while b"\n" not in self._unread:
            left_s = max(0.0, deadline - time.monotonic())
            assert is_readable(self._stdout, left_s), f"it says nothing more\n{self.complaint()}"
            chunk = os.read(self._stdout.fileno(), 1 << 20)
            if not chunk:
                return None
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        told = json.loads(line)
        if "error" in told:
            raise ProgramFailed(told["error"])
        return told

    def complaint(self) -> str:
        """What it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode()


class ClientProgram:
    """One client library of a running program, at work on one cluster."""

    def __init__(self, process: RunningProgram, bootstrap: str, **always: object) -> None:
        """`always` is part of every request."""
        self._process = process
        self._always = {"bootstrap": bootstrap.split(","), **always}

    def ask(self, action: str, **request: object) -> Any:
        """The answer of one action. Raises ProgramFailed."""
        self._tell(action, request)
        told = self._process.read_line(time.monotonic() + _DEADLINE_S)
        if told is None:
            raise ProgramFailed(f"{action}: it has ended\n{self._process.complaint()}")
        return told["answer"]

    def produce(self, topic: str, samples: Sequence[Sample], **request: object) -> Transfer:
        """Produce each record to its partition. Returns the outcome of each, in order."""
        return _transfer(self.ask("produce", topic=topic, **{**as_produced(samples), **request}))

    def consume(self, topic: str, **request: object) -> Transfer:
        """Read every partition from its beginning to its present end."""
        return _transfer(self.ask("consume", topic=topic, **request))

    def stream(self, topic: str) -> "Stream":
        """Produce with an idempotent producer; no other action may follow in this process."""
        how = {"compression": "none", "acks": "all", "idempotent": True}
        self._tell("stream", {"topic": topic, "partitions": PARTITIONS, **how})
        return Stream(self._process)

    def follow(self, topic: str) -> "Stream":
        """Read from the beginning; no other action may follow in this process."""
        self._tell("follow", {"topic": topic, "partitions": PARTITIONS})
        return Stream(self._process)

    def _tell(self, action: str, request: dict[str, object]) -> None:
        self._process.write_line({**self._always, "action": action, **request})


class Stream:
    """The records that a program says were acknowledged, or that it reads, as they come."""

    def __init__(self, process: RunningProgram) -> None:
        self._process = process
        self._deadline = time.monotonic() + _DEADLINE_S
        self.records: list[Placed] = []

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read records until the condition holds."""
        while not condition():
            assert self._read_one(), f"it has ended\n{self._process.complaint()}"

    def finish(self) -> list[Placed]:
        """Make the program end. Returns every record of the stream."""
        self._process.end_input()
        while self._read_one():
            pass
        return self.records

    def count(self, partition: int) -> int:
        """How many records of one partition there are so far."""
        return sum(one.partition == partition for one in self.records)

    def _read_one(self) -> bool:
        assert time.monotonic() < self._deadline, f"{len(self.records)} records"
        told = self._process.read_line(self._deadline)
        if told is None:
            return False
        value = base64.b64decode(told["value"] or "")
        self.records.append(Placed(told["partition"], told["offset"], value))
        return True


def as_produced(samples: Sequence[Sample]) -> dict[str, object]:
    """The part of a request that says what to produce, and the usual way."""
    sent = [_to_json(sample) for sample in samples]
    return {"records": sent, "compression": "none", "acks": "all", "idempotent": False}


def _to_json(sample: Sample) -> dict[str, object]:
    return {
        "partition": sample.partition,
        "key": _encoded(sample.key),
        "value": _encoded(sample.value),
        "headers": [{"key": key, "value": _encoded(value)} for key, value in sample.headers],
        "timestamp_ms": sample.timestamp_ms,
    }


def _transfer(answer: dict[str, Any]) -> Transfer:
    told = answer["records"] or []
    return Transfer(
        [
            Sample(
                one["partition"],
                _decoded(one["key"]),
                _decoded(one["value"]),
                tuple((each["key"], _decoded(each["value"])) for each in one["headers"] or ()),
                one["timestamp_ms"],
            )
            for one in told
        ],
        [one["offset"] for one in told],
        answer["elapsed_ms"] / 1_000,
        answer["throttle_ms"],
    )


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


# -- what lies in the cluster afterwards ------------------------------------------------------


def stored_batches(cluster: Cluster, topic: str, partition: int) -> list[BatchHeader]:
    """The headers of a partition's batches, as its leader hands them out."""
    with WireClient(cluster.addresses[leader(cluster, topic, partition)]) as client:
        records = fetched(client, topic, 0, partition=partition).records
    return [header for header, _ in batches_of(memoryview(records))]


# -- what every language goes through ---------------------------------------------------------


def produced_by_every_codec(
    cluster: Cluster, program: ClientProgram, topic: str, samples: list[Sample], acks: str
) -> dict[int, list[Sample]]:
    """Produce the samples once with each codec. Returns the resulting records by partition.

    `acks` may be `idempotent`. Checks the offsets in the acknowledgements, the end offset of each
    partition, and how the batches of partition 2 are stored.
    """
    expected = by_partition([])
    how = {"acks": "all", "idempotent": True} if acks == "idempotent" else {"acks": acks}
    for compression in COMPRESSIONS:
        sent = program.produce(topic, samples, compression=compression, **how)
        if acks != "0":
            places = {p: iter(range(len(expected[p]), 1 << 20)) for p in range(PARTITIONS)}
            assert sent.offsets == [next(places[sample.partition]) for sample in samples]
        for partition, added in by_partition(samples).items():
            expected[partition] += added
        ends = {str(partition): len(there) for partition, there in expected.items()}
        wait_until(lambda ends=ends: _ends(program, topic) == ends, "the records of acks=0")
    batches = stored_batches(cluster, topic, partition=2)
    assert {batch.compression for batch in batches} == set(Compression)
    assert {batch.producer_id >= 0 for batch in batches} == {acks == "idempotent"}
    return expected


def _ends(program: ClientProgram, topic: str) -> dict[str, int]:
    told = program.ask("offsets", topic=topic, timestamp_ms=NOW_MS)
    return {partition: bounds["latest"] for partition, bounds in told.items()}


def check_that_the_samples_offsets_are_told(program: ClientProgram, topic: str) -> None:
    """Earliest, latest and by time, of a topic that holds the samples once."""
    told = program.ask("offsets", topic=topic, timestamp_ms=NOW_MS + 50)
    bounds = {int(p): (each["earliest"], each["latest"]) for p, each in told.items()}
    assert bounds == {0: (0, 5), 1: (0, 4), 2: (0, 200)}
    assert told["2"]["at_timestamp"] == 50


def check_that_a_leaders_death_neither_loses_nor_repeats(
    cluster: Cluster, program: ClientProgram
) -> None:
    """Idempotent producing over a leader's kill -9: each record once, where it was acknowledged."""
    topic = create_topic(cluster, partitions=PARTITIONS, configs={"min.insync.replicas": "2"})
    victim = leader(cluster, topic, partition=0)
    survivor = (victim + 1) % cluster.size
    stream = program.stream(topic)
    stream.read_until(lambda: stream.count(0) >= 100)
    cluster.kill(victim, stay_down=True)
    before = stream.count(0)
    # More than the pipe can have buffered, so the new leader has acknowledged some of them.
    stream.read_until(lambda: stream.count(0) >= before + 300)
    acknowledged = stream.finish()
    assert leader(cluster, topic, partition=0, asked=survivor) != victim

    with assigning_consumer(cluster.bootstrap) as consumer:
        stored = read_all(consumer, topic)
    assert {(one.partition, one.offset): one.value for one in acknowledged} == {
        (partition, offset): record.value
        for partition, records in stored.items()
        for offset, record in enumerate(records)
    }
    assert sorted(int(one.value) for one in acknowledged) == list(range(len(acknowledged)))
