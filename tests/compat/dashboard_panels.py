"""What each panel of etc/grafana must show of a cluster of two brokers under `prometheus_load`.

Every panel is asked at the same moment, so what must agree does agree, however busy the machine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.compat.prometheus_load import RECORD_BYTES, Load

BROKERS: Final = {"0", "1"}


class Sample(NamedTuple):
    """One series of a panel at the moment."""

    labels: Mapping[str, str]
    value: float


class Board:
    """The answers to all queries of a dashboard, by title of the panel and number of the query."""

    def __init__(self, answers: Mapping[tuple[str, int], Sequence[Sample]], load: Load) -> None:
        self._answers = answers
        self.load = load

    def samples(self, title: str, number: int = 0) -> Sequence[Sample]:
        """All series of one query."""
        return self._answers[title, number]

    def numbers(self, title: str, number: int = 0) -> list[float]:
        """Their values, without those of which there is nothing to tell (NaN)."""
        values = [sample.value for sample in self.samples(title, number)]
        return [value for value in values if not math.isnan(value)]

    def total(self, title: str, number: int = 0) -> float:
        """The sum of all series."""
        return sum(self.numbers(title, number))

    def names(self, title: str, label: str, number: int = 0) -> set[str]:
        """The values of a label."""
        return {sample.labels.get(label, "") for sample in self.samples(title, number)}

    def of(self, title: str, number: int = 0, **labels: str) -> dict[tuple[str, ...], float]:
        """Values of the series with these labels, by broker and quota."""
        return {
            (sample.labels["broker"], sample.labels.get("quota", "")): sample.value
            for sample in self.samples(title, number)
            if all(sample.labels.get(key) == value for key, value in labels.items())
        }


Check = Callable[[Board], object]


def _is(title: str, value: float) -> Check:
    return lambda board: board.numbers(title) == [value]


def _of_each_broker(title: str, queries: int = 1, at_least: float = 0.0) -> Check:
    return lambda board: all(
        board.names(title, "broker", number) == BROKERS
        and min(board.numbers(title, number)) >= 0
        # A broker that another test has killed may lead nothing when it is back.
        and max(board.numbers(title, number)) >= at_least
        for number in range(queries)
    )


def _by_topic(title: str, by_broker: str) -> Check:
    """Topics add up to what the brokers tell: both are counted at the same moments."""
    return lambda board: (
        board.load.topic in board.names(title, "topic")
        and math.isclose(board.total(title), board.total(by_broker), rel_tol=0.01)
        and board.total(title) > 0
    )


def _parts(title: str) -> Check:
    """Six queries of one value each: milliseconds."""
    return lambda board: all(
        len(board.numbers(title, number)) == 1 and 0 <= board.total(title, number) < 60_000
        for number in range(6)
    )


def _rate_and_limit(title: str, client: str, limit: str, quota: str) -> Check:
    def check(board: Board) -> bool:
        client_id, most = getattr(board.load, client), getattr(board.load, limit)
        limits = board.of(title, 1, client_id=client_id)
        rates = board.of(title, 0, client_id=client_id)
        return (
            set(limits.values()) == {most}
            and {each for _, each in limits} == {quota}
            and bool(rates)
            # The window holds 11 s at most, and one answer may have used up several of them.
            and all(0 < rate < 20 * most for rate in rates.values())
        )

    return check


def _throttled(title: str, client: str) -> Check:
    return lambda board: (
        (delays := board.of(title, client_id=getattr(board.load, client)))
        and all(0 < delay_ms <= 60_000 for delay_ms in delays.values())
    )


def _utilisation(board: Board) -> bool:
    """Rate over limit, of the same moment."""
    title = "Utilisation"
    for rates, client, limit, quota in (
        ("Produce Byte Rate", board.load.producer, board.load.produce_limit, "produce"),
        ("Fetch Byte Rate", board.load.reader, board.load.fetch_limit, "fetch"),
        ("Request Time", board.load.asker, board.load.request_limit, "request"),
    ):
        shares = board.of(title, client_id=client, quota=quota)
        for (broker, _), rate in board.of(rates, client_id=client).items():
            if not math.isclose(shares[broker, quota], rate / limit, rel_tol=1e-6):
                return False
    return {sample.labels["quota"] for sample in board.samples(title)} == {
        *("produce", "fetch", "request"),
    }


def _clients_of_all_kinds(title: str) -> Check:
    return lambda board: (
        {board.load.producer, board.load.reader, board.load.asker}
        <= board.names(title, "client_id")
    )


def _is_share(title: str) -> Check:
    return lambda board: all(0 <= each <= 1.05 for each in board.numbers(title))


def _all(*checks: Check) -> Check:
    return lambda board: all(check(board) for check in checks)


def _bytes_per_record(board: Board) -> bool:
    """Bytes in over messages in: what a record takes; the asker's are small, and few."""
    size = board.total("Bytes In") / board.total("Messages In")
    return RECORD_BYTES / 20 < size < RECORD_BYTES * 1.1


PANELS: Final[Mapping[str, Mapping[str, Check]]] = {
    "kafka-cluster": {
        "Active Controllers": _is("Active Controllers", 1),
        "Brokers Online": _is("Brokers Online", 2),
        "Under Replicated Partitions": _is("Under Replicated Partitions", 0),
        "Under Min ISR Partitions": _is("Under Min ISR Partitions", 0),
        "Offline Partitions": _is("Offline Partitions", 0),
        # Two partitions and their replicas; __consumer_offsets and __cluster_metrics beside them.
        "Replicas": lambda board: board.total("Replicas") > 4 and board.total("Replicas") % 2 == 0,
        "Messages In": _of_each_broker("Messages In", at_least=0.1),
        "Bytes In": _all(_of_each_broker("Bytes In", at_least=100), _bytes_per_record),
        "Bytes Out": _of_each_broker("Bytes Out", at_least=100),
        "Bytes In by Topic": _by_topic("Bytes In by Topic", "Bytes In"),
        "Bytes Out by Topic": _by_topic("Bytes Out by Topic", "Bytes Out"),
        "Log Size by Topic": lambda board: (
            board.load.topic in board.names("Log Size by Topic", "topic")
            and board.total("Log Size by Topic") > 10 * RECORD_BYTES
        ),
        "Replication In": _of_each_broker("Replication In", at_least=100),
        # What one broker hands out the other takes in; looked at one after the other.
        "Replication Out": lambda board: (
            0.3 < board.total("Replication Out") / board.total("Replication In") < 3
        ),
        "Failed Produce and Fetch": _of_each_broker("Failed Produce and Fetch", 2, 1e-9),
        "Requests": lambda board: (
            {"Produce", "FetchConsumer", "Metadata", "Heartbeat"}
            <= board.names("Requests", "request")
            and board.total("Requests") > 1
        ),
        "Total Time, 99th percentile (of the last 5 minutes)": lambda board: all(
            0 < sample.value < 120_000
            for sample in board.samples("Total Time, 99th percentile (of the last 5 minutes)")
            if sample.labels["request"] in ("Produce", "FetchConsumer")
        ),
        "Total Time, 99th percentile (from the histogram)": lambda board: all(
            0 < sample.value < 120
            for sample in board.samples("Total Time, 99th percentile (from the histogram)")
            if sample.labels["request"] in ("Produce", "FetchConsumer")
        ),
        "Parts of Produce, mean": _parts("Parts of Produce, mean"),
        "Parts of FetchConsumer, mean": _parts("Parts of FetchConsumer, mean"),
        "Idle share of the broker's thread": _all(
            _of_each_broker("Idle share of the broker's thread"),
            _is_share("Idle share of the broker's thread"),
        ),
        "Purgatory Size": lambda board: (
            board.names("Purgatory Size", "delayedOperation")
            == {"Produce", "Fetch", "DeleteRecords", "Metadata", "Rebalance"}
        ),
        "Connections": _of_each_broker("Connections", at_least=1),
        "Throttled requests and muted connections": lambda board: (
            board.total("Throttled requests and muted connections") > 0
            and board.names("Throttled requests and muted connections", "broker", 1) == BROKERS
        ),
        "ISR Shrinks and Expands": _of_each_broker("ISR Shrinks and Expands", 2),
        "Lag by Group": lambda board: (
            board.names("Lag by Group", "consumergroup") >= {board.load.group}
        ),
        "Groups": lambda board: (
            board.names("Groups", "state") >= {"Stable"} and board.total("Groups") >= 1
        ),
        "Open Transactions": _of_each_broker("Open Transactions"),
        "Commits and Aborts": lambda board: (
            board.total("Commits and Aborts", 0) > 0 and board.total("Commits and Aborts", 1) > 0
        ),
        "Held Back Partitions": _of_each_broker("Held Back Partitions"),
        "Processor time": _of_each_broker("Processor time", at_least=1e-6),
        "Memory": _of_each_broker("Memory", at_least=1 << 20),
        "Broker state": lambda board: board.numbers("Broker state") == [3, 3],
    },
    "kafka-quotas": {
        "Produce Byte Rate": _rate_and_limit(
            "Produce Byte Rate", "producer", "produce_limit", "produce"
        ),
        "Fetch Byte Rate": _rate_and_limit("Fetch Byte Rate", "reader", "fetch_limit", "fetch"),
        "Request Time": _rate_and_limit("Request Time", "asker", "request_limit", "request"),
        "Produce Throttle Time": _throttled("Produce Throttle Time", "producer"),
        "Fetch Throttle Time": _throttled("Fetch Throttle Time", "reader"),
        "Request Throttle Time": _throttled("Request Throttle Time", "asker"),
        "Utilisation": _utilisation,
        "Throttled share of requests": _all(
            _clients_of_all_kinds("Throttled share of requests"),
            _is_share("Throttled share of requests"),
        ),
        "Share of time muted": _is_share("Share of time muted"),
        "Mean throttle time": lambda board: (
            board.total("Mean throttle time") > 0 and max(board.numbers("Mean throttle time")) <= 60
        ),
        "Connections": lambda board: (
            board.total("Connections") >= 4
            and any("rdkafka" in each for each in board.names("Connections", "software"))
        ),
        "Clients": lambda board: (
            max(board.numbers("Clients")) >= 4
            and board.numbers("Clients", 1) == board.numbers("Clients", 2) == [0, 0]
        ),
    },
}
"""By dashboard and title of the panel: whether it shows what its title says."""


def queries_of(panels: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    """Every query of these panels."""
    return {
        (panel["title"], number): target["expr"]
        for panel in panels
        for number, target in enumerate(panel.get("targets", []))
    }
