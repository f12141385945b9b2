"""Clients that others wrote, as loads of a benchmark: Kafka's own tools, kcat, librdkafka."""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from cluster.model.errors import UserError
from cluster.runtime.interrupts import deferred_interrupt
from tests.compat.debian_packages import Program, kcat

_TOOL_S: Final = 300.0
_ANSWER_S: Final = 30.0
_MIB: Final = 1 << 20
_MB: Final = 1e6
_PRODUCED: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec")


class ToolFailed(UserError):
    """A client did not do what it was told to, or printed something else than usual."""


class JavaTools:
    """Programs that use Kafka's own jars, each run in a Java of its own."""

    def __init__(self, class_path: str) -> None:
        self._class_path = class_path
        self._compiled: dict[Path, tempfile.TemporaryDirectory[str]] = {}

    def produce(
        self, bootstrap: str, topic: str, acks: str, records: int, record_bytes: int
    ) -> float:
        """ProducerPerformance with the producer's defaults but acks. Returns MB/s."""
        output = self._run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)),
            *("--throughput", "-1"),
            *("--producer-props", f"bootstrap.servers={bootstrap}", f"acks={acks}"),
        )
        return produced_records_per_s(output, records) * record_bytes / _MB

    def consume(self, bootstrap: str, topic: str, records: int, *, config: str = "") -> float:
        """ConsumerPerformance with the consumer's defaults. Returns MB/s, once it has joined.

        `config` has settings of the consumer, as a file of properties.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
            file.write(config)
            file.flush()
            output = self._run(
                "org.apache.kafka.tools.ConsumerPerformance",
                *("--topic", topic, "--messages", str(records), "--bootstrap-server", bootstrap),
                *("--consumer.config", file.name),
            )
        return consumed_mb_per_s(output, records)

    def run(self, source: Path, *arguments: str) -> str:
        """Run a program of one source file, which is compiled once. Returns its stdout."""
        if source not in self._compiled:
            directory = tempfile.TemporaryDirectory(prefix="milena-bench-")
            _output_of(["javac", "-cp", self._class_path, "-d", directory.name, str(source)])
            self._compiled[source] = directory
        return self._run(source.stem, *arguments, directory=self._compiled[source].name)

    def _run(self, main_class: str, *arguments: str, directory: str = "") -> str:
        class_path = f"{self._class_path}{os.pathsep}{directory}" if directory else self._class_path
        options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]
        return _output_of(["java", *options, main_class, *arguments])


def produced_records_per_s(output: str, records: int) -> float:
    """The rate in the last line of ProducerPerformance. Raises ToolFailed."""
    matches = [found for line in output.splitlines() if (found := _PRODUCED.match(line))]
    if not matches or int(matches[-1][1]) != records:
        raise ToolFailed(f"ProducerPerformance did not send {records} records: {_end(output)}")
    return float(matches[-1][2])


def consumed_mb_per_s(output: str, records: int) -> float:
    """The rate of fetching in the table that ConsumerPerformance prints. Raises ToolFailed."""
    lines = [[cell.strip() for cell in line.split(",")] for line in output.splitlines()]
    heads = next((cells for cells in lines if cells[0] == "start.time"), None)
    if heads is not None:
        for cells in lines[lines.index(heads) + 1 :]:
            row = dict(zip(heads, cells, strict=False))
            if "fetch.MB.sec" in row and int(row["data.consumed.in.nMsg"]) >= records:
                return float(row["fetch.MB.sec"]) * _MIB / _MB
    raise ToolFailed(f"ConsumerPerformance did not read {records} records: {_end(output)}")


def found_kcat() -> Program | None:
    """kcat, if it is installed."""
    try:
        return kcat()
    except pytest.skip.Exception:
        return None


def kcat_seconds(program: Program, bootstrap: str, topic: str, records: int) -> float:
    """The seconds that kcat takes to read partition 0 from its beginning, its start included."""
    began = time.monotonic()
    _output_of(
        [
            *(program.path, "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0"),
            *("-o", "beginning", "-c", str(records)),
        ],
        program.environment,
        keeps_output=False,
    )
    return time.monotonic() - began


def read_by_librdkafka(bootstrap: str, topic: str, records: int) -> None:
    """Read partition 0 from its beginning. Raises ToolFailed."""
    with deferred_interrupt():
        consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        count = 0
        deadline = time.monotonic() + _TOOL_S
        while count < records:
            count += len(consumer.consume(10_000, 0.1))
            if time.monotonic() > deadline:
                raise ToolFailed(f"librdkafka read {count} of {records} records")
    finally:
        consumer.close()


def end_to_end_us(bootstrap: str, topic: str, records: int) -> list[float]:
    """From `produce` with acks=all and without linger to the same record in a consumer.

    One record at a time; the first tenth is not counted.
    """
    with deferred_interrupt():
        producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        consumer = _consumer(bootstrap)
    waits: list[float] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for number in range(records):
            began = time.perf_counter()
            producer.produce(topic, b"x" * 100, partition=0)
            message = consumer.poll(_ANSWER_S)
            if message is None or message.error() is not None:
                problem = "nothing" if message is None else message.error()
                raise ToolFailed(f"librdkafka consumed {problem} instead of the record produced")
            if number >= records // 10:
                waits.append((time.perf_counter() - began) * 1e6)
            producer.poll(0)
    finally:
        producer.flush(_ANSWER_S)
        consumer.close()
    return waits


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,  # by default it pauses for a second when its queue is full
        }
    )


def _output_of(
    command: list[str], environment: dict[str, str] | None = None, *, keeps_output: bool = True
) -> str:
    """Run a client to its end. Returns its stdout. Raises ToolFailed."""
    output = subprocess.PIPE if keeps_output else subprocess.DEVNULL
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_TOOL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{name} did not end within {_TOOL_S:g} s") from None
    if done.returncode != 0:
        raise ToolFailed(f"{name} ended with status {done.returncode}: {_end(done.stderr)}")
    return done.stdout or ""


def _end(output: str) -> str:
    """The last line that a program wrote, without those of a stack."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("\t")]
    return lines[-1][-200:] if lines else "no output"
