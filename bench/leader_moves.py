"""How long a client's records pause when leadership moves between two live brokers.

    PYTHONPATH=. .venv/bin/python -m bench.leader_moves [--moves 20] [--clients librdkafka,java,...]

Three brokers, one topic of one partition with three replicas, clients with their default settings
(acks=all), some 1,000 records a second. The preferred replica's broker is restarted in order, which
moves its leadership away; when it is in sync again, an election moves it back. Prints one row per
client: the longest pause between two acknowledged (or read) records around each move away and each
move back. What the figures mean: docs/failover.md.
Clients that are not on this machine are left out; MILENA_TEST_INSTALL=1 fetches Java's and Go's.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.failover import CLIENTS, ROLES, Client, quantile, running, say
from cluster.protocol.api import ApiKey
from tests.support.kafka_wire import WireClient, request
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

_AROUND_S: Final = 0.05
_AFTER_S: Final = 1.5
"""So long after a move its pause is over, and would show."""


def elect(cluster: Cluster, topic: str) -> None:
    """Have the preferred replica lead; returns when every broker knows."""
    with WireClient(cluster.addresses[controller(cluster)]) as client:
        answer = client.call(
            request(
                ApiKey.ELECT_LEADERS,
                2,
                election_type=0,
                topic_partitions=[{"topic": topic, "partitions": [0]}],
                timeout=10_000,
            )
        )
    ((result,),) = (each.partition_result for each in answer.replica_election_results)
    assert result.error_code == 0, result


def pause_of(client: Client, move: Callable[[], None]) -> float:
    """The longest pause around a move, in ms."""
    began = time.monotonic() - _AROUND_S
    move()
    until = time.monotonic() + _AFTER_S
    wait_until(lambda: client.times[-1] > until, "records to flow", 60.0)
    return client.pause_ms(began)


def series(name: str, role: str, moves: int, overrides: Mapping[str, str]) -> list[str]:
    """One row of the table."""
    away, back = [], []
    with tempfile.TemporaryDirectory(prefix="milena-moves-") as directory:
        cluster = Cluster(Path(directory) / "data", overrides=overrides)
        with cluster:
            preferred = random.randrange(cluster.size)
            others = [broker for broker in range(cluster.size) if broker != preferred]
            topic = create_topic(cluster, assignments=[[preferred, *others]])
            with running(name, role, cluster, topic) as client:
                time.sleep(2)
                for number in range(moves):
                    away.append(pause_of(client, lambda: cluster.restart(preferred)))
                    wait_for_isr(cluster, topic, cluster.size)
                    time.sleep(random.random())  # not in step with clients' timers
                    back.append(pause_of(client, lambda: elect(cluster, topic)))
                    assert leader(cluster, topic) == preferred
                    say(
                        f"{name} {role} {number + 1}/{moves}: away {away[-1]:.0f} ms,"
                        f" back {back[-1]:.0f} ms"
                    )
            errors = len(client.errors)
    return [name, role, str(moves), *figures(away), *figures(back), str(errors)]


def figures(pauses: Sequence[float]) -> list[str]:
    """Median and maximum."""
    ordered = sorted(pauses)
    return [f"{quantile(ordered, 0.5):.0f}", f"{ordered[-1]:.0f}"]


def main() -> None:
    """Run every series and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=20, help="per client and role")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated")
    parser.add_argument("--roles", default=",".join(ROLES), help="comma separated")
    options = parser.parse_args()
    rows = []
    for name in options.clients.split(","):
        for role in options.roles.split(","):
            try:
                rows.append(
                    series(name, role, options.moves, {"auto.leader.rebalance.enable": "false"})
                )
            except LookupError as problem:
                say(f"{name} is left out: {problem}")
    head = ["client", "role", "moves", "away p50", "max", "back p50", "max", "errors"]
    print(f"| {' | '.join(head)} |")
    print(f"|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
