"""Transactions of Milena beside those of Apache Kafka 4.1, driven by the same clients.

    .venv/bin/python -m bench.transactions [--rounds 3] [--only PATTERN] [--quick]
        [--markdown docs/benchmarks.md] [--kafka-heap 1G] [--directory DIR] [--port PORT]

Needs a JDK, Maven unless Kafka's jars are in the cache, the environment that `bin/test` makes on
first use, and an otherwise idle machine. Rounds, clusters and report are those of
`bench/beside_kafka.py`. Takes some 20 minutes on two cores; `--quick` is for trying it.
"""

from bench.beside_run import Script, librdkafka, run_script
from bench.beside_stage import Programs, Sizes
from bench.transaction_loads import LOADS, warm_up


def preparation(sizes: Sizes) -> str:
    """What happens before it is measured."""
    return (
        f"warmed up by {sizes.warm_transactions_s:g} s of each kind of transaction; each client is"
        f" at work for {sizes.uncounted_s:g} s before it is measured for {sizes.transactions_s:g} s"
    )


def clients(_programs: Programs) -> str:
    """The names of the clients."""
    return (
        "Kafka's own in Java, from the same jars, which adds partitions to transactions by writing"
        f" to them (KIP-890); {librdkafka()}; raw sockets"
    )


SCRIPT = Script(
    "bench.transactions",
    "Transactions",
    LOADS,
    warm_up,
    preparation,
    clients,
    "`__transaction_state` has as many replicas as there are brokers, and a"
    " `min.insync.replicas` of 2 of 3. A transaction has a record of 100 bytes in each partition;"
    " with consume-transform-produce the records of one poll, at most 500. A commit is the call of"
    " the client with all that it flushes; that of a raw connection is EndTxn alone; with"
    " consume-transform-produce the whole transaction is timed. Readers with"
    " `read_committed` read records of 1 KB in transactions of 100, of which every tenth is"
    " aborted.",
)


if __name__ == "__main__":
    run_script(SCRIPT, __doc__ or "")
