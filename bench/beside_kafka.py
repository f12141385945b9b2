"""Milena beside Apache Kafka 4.1 in one run, driven by the same clients that others wrote.

    .venv/bin/python -m bench.beside_kafka [--rounds 3] [--only PATTERN] [--quick]
        [--markdown docs/benchmarks.md] [--kafka-heap 1G] [--directory DIR] [--port PORT]

Needs Java (a JDK for one row), Maven unless Kafka's jars are in the cache, the environment that
`bin/test` makes on first use, and an otherwise idle machine. In each round both systems are started
anew, with one broker and with three, one system at a time and in another order than in the round
before. Both are warmed up before anything but start and idleness is measured. Takes some 25 minutes
on two cores; `--quick` is for trying it and takes four.
"""

from bench.beside_loads import LOADS, warm_up
from bench.beside_run import Script, librdkafka, run_script
from bench.beside_stage import Programs, Sizes


def preparation(sizes: Sizes) -> str:
    """What happens before it is measured."""
    return (
        "warmed up before anything but start and idleness is measured:"
        f" {sizes.warm_requests:,} raw requests of each kind, but no longer than"
        f" {sizes.warm_most_s:g} s, then a Java producer"
    )


def clients(programs: Programs) -> str:
    """The names of the clients."""
    kcat = "kcat" if programs.kcat else "no kcat"
    return f"Kafka's own tools from the same jars, {librdkafka()}, {kcat}, raw sockets"


SCRIPT = Script(
    "bench.beside_kafka",
    "Beside Apache Kafka",
    LOADS,
    warm_up,
    preparation,
    clients,
    "Topics have one partition, with 8 and 50 raw connections eight.",
)


if __name__ == "__main__":
    run_script(SCRIPT, __doc__ or "")
