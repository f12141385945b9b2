"""Moves partitions under load while processes are killed, and checks that nothing is lost.

    PYTHONPATH=. .venv/bin/python -m bench.reassignment_kills [--moves 50] [--seed 1]

Four brokers, partitions with two or three replicas, one idempotent producer and one group. Each
move has another target, and one kind of disturbance: whoever joins, leaves, leads or controls dies
by kill -9 at some moment between the request and the end of the move; the move is canceled or gets
another target meanwhile; the registry dies; all processes die. Prints a row for each kind: how long
the moves took, and the longest pause between two acknowledged records. Ends with status 1 unless
every record is there once and in order, on equal replicas, and no other broker has a log of it.
"""

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer

from bench.failover import quantile, say
from cluster.client.missing_offsets import assign_again, lacks_offsets
from cluster.client.reassignment_requests import alter_reassignments, list_reassignments
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused, UserError
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import log_bytes
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, describe
from tests.support.waiting import wait_until

_BROKERS: Final = 4
_PARTITIONS: Final = 3
_PER_SECOND: Final = 300
_DEADLINE_S: Final = 60.0
_VALUE_BYTES: Final = 1_000
_LOAD_RECORDS: Final = 20_000
"""Records before the first move, so that a new replica has something to copy."""


class TimedRecorder(Recorder):
    """Notes when each record was acknowledged."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.times = [time.monotonic()]

    def _on_delivery(self, error: Any, message: Any) -> None:
        self.times.append(time.monotonic())
        super()._on_delivery(error, message)


class Moves:
    """The moves of one cluster."""

    def __init__(self, cluster: Cluster, topic: str, dice: random.Random) -> None:
        self._cluster = cluster
        self._topic = topic
        self._dice = dice
        self._present = [0, 1, 2]
        self._places = [Place(topic, number) for number in range(_PARTITIONS)]
        self.kinds: Mapping[str, Callable[[list[int], list[int]], list[int]]] = {
            "nobody dies": lambda _joining, _leaving: [],
            "joining replica": lambda joining, _leaving: joining,
            "leaving replica": lambda _joining, leaving: leaving,
            "leader": lambda _joining, _leaving: [self._leader()],
            "controller": lambda _joining, _leaving: [controller(cluster)],
            "controller and joining": lambda joining, _leaving: [controller(cluster), *joining],
            "all brokers": lambda _joining, _leaving: list(range(_BROKERS)),
            "registry": lambda _joining, _leaving: [],
            "canceled, controller": lambda _joining, _leaving: [controller(cluster)],
            "another target, leader": lambda _joining, _leaving: [self._leader()],
            "all processes": lambda _joining, _leaving: [],
        }

    def carry_out(self, kind: str) -> None:
        """Ask for other replicas, disturb that, and wait until they are there."""
        wait_until(self._is_whole, "every broker to be there", _DEADLINE_S)
        target = self._any_target()
        joining = [each for each in target if each not in self._present]
        leaving = [each for each in self._present if each not in target]
        victims = list(dict.fromkeys(self.kinds[kind](joining, leaving)))
        if joining and self._dice.random() < 0.5:
            self._pause_for(joining[0], self._dice.uniform(0.2, 1.0))
        self._ask(target)
        time.sleep(self._dice.choice([0, 0.02, 0.1, 0.5]))
        if kind.startswith("canceled"):
            target = self._cancel()
        elif kind.startswith("another target"):
            target = self._any_target()
            self._ask(target)
        if kind == "registry":
            self._cluster.kill("registry")
        elif kind == "all processes":
            self._cluster.kill_everything()
            self._cluster.start()
        for victim in victims:
            with suppress(UserError):  # it is being started again
                self._cluster.kill(victim)
        self._present = target
        wait_until(self._is_there, f"{kind}: replicas {target}", _DEADLINE_S)

    def _pause_for(self, broker: int, duration_s: float) -> None:
        """So that the move is in progress for some time."""

        def resume() -> None:
            with suppress(UserError):  # all processes were killed
                self._cluster.resume(broker)

        self._cluster.pause(broker)
        threading.Timer(duration_s, resume).start()

    def _any_target(self) -> list[int]:
        return self._dice.sample(range(_BROKERS), self._dice.choice([2, 3, 3]))

    def _leader(self) -> int:
        for address in self._cluster.addresses:
            view = describe(address, self._topic)
            if view is not None and view.topics[0].partitions:
                leader: int = self._dice.choice(view.topics[0].partitions).leader_id
                if leader >= 0:
                    return leader
        return 0

    def _ask(self, target: Sequence[int] | None) -> None:
        """Ask until the controller has accepted it, or has nothing to cancel."""

        def is_accepted() -> bool:
            try:
                with self._admin() as client:
                    answers = alter_reassignments(client, dict.fromkeys(self._places, target))
            except (Refused, UserError):
                return False
            codes = {refused.code for refused in answers.values() if refused is not None}
            return codes <= {ErrorCode.no_reassignment_in_progress}

        wait_until(is_accepted, f"the controller to accept {target}", _DEADLINE_S)

    def _cancel(self) -> list[int]:
        """Cancel what is not completed yet. What was, is moved back: all partitions end alike."""
        self._ask(None)
        self._ask(self._present)
        return self._present

    def _admin(self) -> SocketClient:
        for address in self._cluster.addresses:
            view = describe(address)
            if view is not None and view.controller_id >= 0:
                return SocketClient.connect([self._cluster.addresses[view.controller_id]], "admin")
        raise UserError("no broker knows a controller")

    def _is_whole(self) -> bool:
        views = [describe(address) for address in self._cluster.addresses]
        return all(view is not None and len(view.brokers) == _BROKERS for view in views)

    def _is_there(self) -> bool:
        views = [describe(address, self._topic) for address in self._cluster.addresses]
        target = self._present
        for view in views:
            if view is None or len(view.topics[0].partitions) != _PARTITIONS:
                return False
            for state in view.topics[0].partitions:
                if list(state.replica_nodes) != target or set(state.isr_nodes) != set(target):
                    return False
        try:
            with self._admin() as client:
                return not list_reassignments(client)
        except (Refused, UserError):  # the controller has moved
            return False

    def check_at_the_end(self, recorder: Recorder) -> None:
        """Whether every record is there once, in order, and only where it belongs."""
        cluster, topic = self._cluster, self._topic
        assert recorder.failed == [], recorder.failed[:3]
        read = read_all(cluster, topic, partitions=_PARTITIONS)
        assert {p: list(records.values()) for p, records in read.items()} == recorder.sent
        others = [each for each in range(_BROKERS) if each not in self._present]
        spare = [
            cluster.log_dir(broker) / f"{topic}-{number}"
            for broker in others
            for number in range(_PARTITIONS)
        ]
        wait_until(lambda: not any(path.exists() for path in spare), "unneeded logs to go", 60.0)
        cluster.stop()
        for number in range(_PARTITIONS):
            logs = {log_bytes(cluster, broker, topic, number) for broker in self._present}
            assert len(logs) == 1, f"replicas of {topic}-{number} differ"


def consume(cluster: Cluster, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def check_consumed(consumer: Consumer, sent: Mapping[int, list[bytes]]) -> None:
    """The group's member gets every record once and in order."""
    seen: dict[int, list[bytes]] = {partition: [] for partition in sent}
    total = sum(map(len, sent.values()))

    def has_all() -> bool:
        for message in consumer.consume(1_000, 0.2):
            error = message.error()
            if error is None:
                seen[message.partition() or 0].append(message.value() or b"")
            elif lacks_offsets(error):
                assign_again(consumer)
        return sum(map(len, seen.values())) >= total

    wait_until(has_all, "the group to read everything", _DEADLINE_S)
    consumer.close()
    assert seen == sent


def longest(*times: float) -> float:
    """The longest time between two of them."""
    return max(after - before for before, after in itertools.pairwise(times))


def main() -> None:
    """Move, kill, check, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one kind of disturbance")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    rows: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="milena-moves-") as directory,
        Cluster(Path(directory) / "data", brokers=_BROKERS) as cluster,
    ):
        topic = create_topic(cluster, assignments=[[0, 1, 2]] * _PARTITIONS)
        recorder = TimedRecorder(cluster, topic, partitions=_PARTITIONS, enable_idempotence=True)
        recorder.produce("x" * _VALUE_BYTES, _LOAD_RECORDS)
        recorder.flush()
        consumer = consume(cluster, topic)
        moves = Moves(cluster, topic, dice)
        kinds = list(moves.kinds) if options.only is None else [options.only]
        with recorder.producing("load", per_second=_PER_SECOND):
            for number in range(options.moves):
                kind = kinds[number % len(kinds)]
                began = time.monotonic()
                moves.carry_out(kind)
                ended = time.monotonic()
                times = [at for at in list(recorder.times) if began <= at <= ended]
                pause = longest(began, *times, ended)
                rows.setdefault(kind, []).append((ended - began, pause))
                figures = f"{ended - began:.1f} s, pause {pause:.2f} s"
                say(f"{number + 1}/{options.moves} {kind}: {figures}")
        check_consumed(consumer, recorder.sent)
        moves.check_at_the_end(recorder)
    print("| disturbance | moves | seconds: p50 / max | longest pause in seconds: p50 / max |")
    print("| --- | --- | --- | --- |")
    for kind, seen in rows.items():
        columns = [sorted(column) for column in zip(*seen, strict=True)]
        summary = [f"{quantile(each, 0.5):.1f} / {each[-1]:.1f}" for each in columns]
        print(f"| {kind} | {len(seen)} | {summary[0]} | {summary[1]} |")
    print(
        f"{sum(map(len, recorder.sent.values()))} records, each once and in order", file=sys.stderr
    )


if __name__ == "__main__":
    main()
