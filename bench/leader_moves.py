"""How long a client's records pause when a broker goes, and when its leadership returns.

    PYTHONPATH=. .venv/bin/python -m bench.leader_moves [--moves 10] [--clients librdkafka,java,...]

Three brokers, one topic of one partition with three replicas, clients with their default settings
(acks=all), some 1,000 records a second. The broker of the preferred replica is restarted in order,
or dies by kill -9 and is started by the supervisor; when it is in sync it leads again by itself.
Prints one row per client: the longest pause between two acknowledged (or read) records before all
that, until the return and around it. What the figures mean, and what a shorter --rest changes:
docs/failover.md.
Clients that are not on this machine are left out; MILENA_TEST_INSTALL=1 fetches Java's and Go's.
"""

import argparse
import itertools
import os
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.failover import CLIENTS, Client, quantile, running, say
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

_SEEN_S: Final = 0.3
"""A return is seen so much later at most, by whoever asks a busy broker."""
_AFTER_S: Final = 1.5
"""So long after a move its pause is over, and would show."""


class Moves(NamedTuple):
    """What a client saw of one departure and one return, in milliseconds."""

    before_ms: float
    """In as long a time before: what the machine's other work does."""
    away_ms: float
    back_ms: float
    returned_ms: float
    """From the order to stop or die to the return."""


def move_once(cluster: Cluster, topic: str, preferred: int, client: Client, how: str) -> Moves:
    """Take the preferred replica's broker away, and wait until it leads again by itself."""
    other = (preferred + 1) % cluster.size
    began = time.monotonic()
    if how == "kill":
        pid = cluster.pid(preferred)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)  # the supervisor starts it again
        wait_until(lambda: leader(cluster, topic, asked=other) != preferred, "an election")
    else:
        cluster.restart(preferred)
    wait_until(lambda: leader(cluster, topic, asked=other) == preferred, "the return")
    returned = time.monotonic()
    until = returned + _AFTER_S
    wait_until(lambda: client.times[-1] > until, "records to flow", 60.0)
    back = [at for at in client.times if returned - _SEEN_S <= at]
    away = [at for at in client.times if began - 0.05 <= at < returned - _SEEN_S]
    before = [at for at in client.times if began - _SEEN_S - _AFTER_S <= at < began]
    return Moves(longest_ms(before), longest_ms(away), longest_ms(back), (returned - began) * 1e3)


def longest_ms(times: Sequence[float]) -> float:
    """The longest time between two records."""
    return max(after - before for before, after in itertools.pairwise(times)) * 1e3


def series(name: str, role: str, how: str, moves: int, rest_s: float) -> list[str]:
    """One row of the table."""
    seen = []
    with (
        tempfile.TemporaryDirectory(prefix="milena-moves-") as directory,
        Cluster(Path(directory) / "data") as cluster,
    ):
        preferred = random.randrange(cluster.size)
        others = [broker for broker in range(cluster.size) if broker != preferred]
        topic = create_topic(cluster, assignments=[[preferred, *others]])
        with running(name, role, cluster, topic) as client:
            for number in range(moves):
                time.sleep(rest_s + random.random())  # not in step with clients' timers
                wait_for_isr(cluster, topic, cluster.size)
                seen.append(move_once(cluster, topic, preferred, client, how))
                say(
                    f"{name} {role} {how} {number + 1}/{moves}: before {seen[-1].before_ms:.0f} ms,"
                    f" away {seen[-1].away_ms:.0f} ms,"
                    f" back {seen[-1].back_ms:.0f} ms,"
                    f" after {seen[-1].returned_ms:.0f} ms"
                )
        errors = len(client.errors)
    columns = zip(*seen, strict=True)
    return [name, role, how, str(moves), *map(figures, columns), str(errors)]


def figures(values: Sequence[float]) -> str:
    """Median and maximum."""
    ordered = sorted(values)
    return f"{quantile(ordered, 0.5):.0f} / {ordered[-1]:.0f}"


def main() -> None:
    """Run every series and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=10, help="per client and role")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated")
    parser.add_argument("--roles", default="produce,idempotent", help="comma separated")
    parser.add_argument("--how", default="restart,kill", help="how brokers go, comma separated")
    parser.add_argument(
        "--rest", type=float, default=12.0, help="seconds of peace before each (see the docs)"
    )
    options = parser.parse_args()
    rows = []
    for name in options.clients.split(","):
        for role in options.roles.split(","):
            for how in options.how.split(","):
                try:
                    rows.append(series(name, role, how, options.moves, options.rest))
                except LookupError as problem:
                    say(f"{name} is left out: {problem}")
    head = [
        "client",
        "role",
        "how",
        "moves",
        "before: p50 / max ms",
        "away",
        "back",
        "returned after",
    ]
    print(f"| {' | '.join([*head, 'errors'])} |")
    print(f"|{' --- |' * (len(head) + 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
