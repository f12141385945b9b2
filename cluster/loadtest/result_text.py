"""Load-test results for people and scripts: lines, a table, one JSON object. Pure.

Lines have the figures of kafka-producer-perf-test in its order, with the units of our commands: its
`MB/sec` are MiB/s.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from cluster.loadtest.client_interval import ClientInterval, total
from cluster.loadtest.group_account import GroupResult
from cluster.loadtest.latency_histogram import LatencyHistogram
from cluster.loadtest.load_run import LoadResult
from cluster.loadtest.sequence_check import Verified
from cluster.loadtest.spawned_process import Worker
from cluster.model.printable import one_line
from cluster.runtime.text_table import table_text

MIB: Final = 1024 * 1024
_LONG_WAIT_S: Final = 5.0
PERCENTILES: Final = (50, 95, 99, 99.9)

_HEADINGS: Final = (
    *("CLIENT", "RECORDS", "RECORDS/s", "MiB/s"),
    *("AVG ms", "P50 ms", "P95 ms", "P99 ms", "P99.9 ms", "MAX ms"),
    *("THROTTLED ms", "PER ANSWER ms", "FAILED"),
)


def progress_line(interval: ClientInterval) -> str:
    """A progress line about producers, like those of kafka-producer-perf-test."""
    return (
        f"{interval.records} records sent, {interval.records_per_s:.1f} records/s"
        f" ({interval.bytes_per_s / MIB:.2f} MiB/s), {interval.latency.average_us / 1e3:.1f} ms avg"
        f" latency, {interval.latency.max_us / 1e3:.1f} ms max latency."
    )


def summary_line(interval: ClientInterval) -> str:
    """A last line like that of kafka-producer-perf-test, about all producers."""
    percentiles = ", ".join(
        f"{interval.latency.percentile_us(percent) / 1e3:.1f} ms {percent:g}th"
        for percent in PERCENTILES
    )
    return f"{progress_line(interval).removesuffix('.')}, {percentiles}."


def outcome_line(interval: ClientInterval) -> str:
    """How many records of all producers were acknowledged, and what became of the others."""
    count = interval.records + interval.failed + interval.abandoned
    return (
        f"Sent {count:,} records: {interval.records:,} acknowledged, {interval.failed:,} failed,"
        f" {interval.abandoned:,} unacknowledged."
    )


def catching_up_line(workers: Sequence[Worker]) -> str | None:
    """How far the consumers are once all producers have ended; None before, and at the end."""
    producers = [worker for worker in workers if worker.is_producer]
    consumers = [worker for worker in workers if not worker.is_producer]
    if not all(worker.is_done for worker in producers):
        return None
    if all(worker.is_done for worker in consumers):
        return None
    expected = sum(worker.total.records for worker in producers)
    arrived = min(expected, sum(worker.total.records for worker in consumers))
    return (
        "All records are sent. Waiting for the consumers to catch up:"
        f" {arrived:,} of {expected:,} records have arrived"
    )


def clients_table(clients: Sequence[tuple[str, ClientInterval]]) -> str:
    """One aligned row per client."""
    rows = [_row(name, interval) for name, interval in clients]
    return table_text(_HEADINGS, rows, right=_HEADINGS[1:])


def result_text(result: LoadResult) -> str:
    """The complete final output."""
    parts = []
    if result.is_interrupted:
        parts.append("Interrupted: these are partial results.")
    clients = [(worker.name, worker.total) for worker in (*result.producers, *result.consumers)]
    parts.append(clients_table(clients))
    delay = LatencyHistogram()
    for worker in result.producers:
        delay.add(worker.total.send_delay)
    parts.append(
        "Latency counts from when a record was due: to its acknowledgement, or to its arrival at a"
        f" consumer. Producers sent {delay.average_us / 1e3:.2f} ms late on average,"
        f" {delay.percentile_us(99) / 1e3:.1f} ms at p99."
    )
    parts += [transactions_line(name, one) for name, one in clients if one.transactions]
    parts += [
        f"{name}: {one_line(text)} ({count} times)"
        for name, interval in clients
        for text, count in interval.errors.most_common()
    ]
    parts += [
        f"{name}: {interval.abandoned} records were taken back unacknowledged"
        for name, interval in clients
        if interval.abandoned
    ]
    parts += [
        f"{worker.name} could not keep up: {worker.unsent} records were due and not sent"
        for worker in result.producers
        if worker.unsent
    ]
    parts += [
        f"{worker.name} waited {worker.waited_s:.0f} s after its last record for answers"
        f" ({_message_timeout(worker)})"
        for worker in result.producers
        if worker.waited_s >= _LONG_WAIT_S
    ]
    if result.group is not None:
        parts.append(group_text(result.group))
    if result.producers:
        everything = total([worker.total for worker in result.producers])
        parts += [outcome_line(everything), summary_line(everything)]
    is_good = result.exit_status == 0
    if result.verified is not None:
        parts.append(verified_line(result.verified, is_good=is_good, failed=result.failed))
    elif not result.is_interrupted:
        parts.append(
            "✓ Every record was acknowledged."
            if is_good
            else "✗ Not every record was acknowledged."
        )
    return "\n".join(parts)


def transactions_line(name: str, interval: ClientInterval) -> str:
    """What a producer has committed, and how long that took."""
    latency = interval.commit_latency
    return (
        f"{one_line(name)}: {interval.transactions} transactions committed"
        f" ({interval.transactions_per_s:.1f}/s), {interval.aborted_transactions} aborted; a commit"
        f" took {latency.average_us / 1e3:.1f} ms on average,"
        f" {latency.percentile_us(50) / 1e3:.1f} ms at p50,"
        f" {latency.percentile_us(99) / 1e3:.1f} ms at p99, {latency.max_us / 1e3:.1f} ms at most"
    )


def group_text(group: GroupResult) -> str:
    """Lines about the consumers' group."""
    commits = f"{group.commits} commits" + (
        f", {group.failed_commits} failed" if group.failed_commits else ""
    )
    lag = "unknown" if group.lag is None else f"{group.lag}"
    text = (
        f"Group {one_line(group.group)} ({group.protocol}): {group.members} members,"
        f" {group.rebalances} rebalances after the first, {commits}, lag at the end {lag}"
    )
    if group.killed:
        text += f"\nKilled in the middle: {', '.join(map(one_line, group.killed))}"
    if group.lost_partitions:
        text += f"\n{group.lost_partitions} times a member lost its partitions to others"
    return text


def wait_line(worker: Worker) -> str:
    """The line for a producer that has sent its last record and waits for answers."""
    records = 0 if worker.wait is None else worker.wait.records
    return (
        f"{one_line(worker.name)} has sent its last record and waits for the answers to {records}"
        f" ({_message_timeout(worker)})"
    )


def verified_line(verified: Verified, *, is_good: bool, failed: int = 0) -> str:
    """The line that says whether every record arrived once and in order.

    `failed` records could not be delivered by producers and do not count as lost.
    """
    lost = f"{failed} could not be delivered, {verified.lost} others" if failed else verified.lost
    counts = (
        f"{verified.received} of {verified.sent} records arrived, {lost} lost,"
        f" {verified.duplicates} duplicates, {verified.out_of_order} out of order"
    )
    return f"{'✓' if is_good else '✗'} {counts}"


def _message_timeout(worker: Worker) -> str:
    """How long a client tries to deliver a record, by librdkafka's name or its alias."""
    names = ("message.timeout.ms", "delivery.timeout.ms")
    given = worker.order.properties
    found = next((f"{name}={given[name]}" for name in names if name in given), None)
    return f"at most {found} for each" if found else "message.timeout.ms is the client's default"


def result_json(result: LoadResult) -> dict[str, Any]:
    """The result as `--json` prints it."""
    verified = result.verified
    return {
        "topic": result.topic,
        "interrupted": result.is_interrupted,
        "seconds": round(result.seconds, 3),
        "producers": [
            {
                **client_json(one.name, one.total),
                "unsent": one.unsent,
                "waited_s": round(one.waited_s, 3),
            }
            for one in result.producers
        ],
        "consumers": [client_json(one.name, one.total) for one in result.consumers],
        "group": None if result.group is None else asdict(result.group),
        "verified": None
        if verified is None
        else {
            **asdict(verified),
            "partitions": {
                str(partition): asdict(one)
                for partition, one in result.verified_by_partition.items()
            },
        },
        "exit_status": result.exit_status,
    }


def client_json(name: str, interval: ClientInterval) -> dict[str, Any]:
    """One client's fields in the JSON result."""
    return {
        "client_id": name,
        "seconds": round(interval.seconds, 3),
        "records": interval.records,
        "failed": interval.failed,
        "abandoned": interval.abandoned,
        "bytes": interval.size_bytes,
        "records_per_s": round(interval.records_per_s, 1),
        "mb_per_s": round(interval.bytes_per_s / MIB, 3),
        "latency_ms": latency_json(interval.latency),
        "send_delay_ms": latency_json(interval.send_delay),
        "throttle_ms": {
            "total": interval.throttle_ms,
            "avg": round(interval.throttle_ms_average, 1),
            "max": interval.throttle_ms_max,
            "count": interval.throttle_count,
        },
        "errors": dict(interval.errors),
        "transactions": {
            "committed": interval.transactions,
            "aborted": interval.aborted_transactions,
            "per_s": round(interval.transactions_per_s, 1),
            "commit_latency_ms": latency_json(interval.commit_latency),
        },
    }


def latency_json(latency: LatencyHistogram) -> dict[str, float]:
    """Average, maximum and percentiles in milliseconds."""
    percentiles = {
        f"p{percent:g}": round(latency.percentile_us(percent) / 1e3, 3) for percent in PERCENTILES
    }
    return {
        "avg": round(latency.average_us / 1e3, 3),
        **percentiles,
        "max": round(latency.max_us / 1e3, 3),
    }


def _row(name: str, interval: ClientInterval) -> tuple[str, ...]:
    latency = interval.latency
    return (
        name,
        f"{interval.records}",
        f"{interval.records_per_s:.1f}",
        f"{interval.bytes_per_s / MIB:.2f}",
        f"{latency.average_us / 1e3:.1f}",
        *(f"{latency.percentile_us(percent) / 1e3:.1f}" for percent in PERCENTILES),
        f"{latency.max_us / 1e3:.1f}",
        f"{interval.throttle_ms}",
        f"{interval.throttle_ms_average:.0f}",
        f"{interval.failed}",
    )
