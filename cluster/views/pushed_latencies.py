"""The latency of requests as clients see it, from the metrics that they push (KIP-714). Pure.

Librdkafka and Java's client push it for each broker that they are connected to.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster.protocol.peer.pushed_metrics import PushedMetricsAnswer, PushedValue, PushingClient

LATENCY_PREFIXES: Final = tuple(
    f"org.apache.kafka.{role}.node.request.latency." for role in ("producer", "consumer")
)
"""Of the metrics that are looked at."""
API_OF: Final = {"producer": "Produce", "consumer": "FetchConsumer"}
"""The API of most requests, by the role of a client."""
_NAME: Final = re.compile(r"org\.apache\.kafka\.(producer|consumer)\.node\.request\.latency\.(\w+)")
_NODE: Final = re.compile(r"(?:node-)?(\d{1,9})")
"""Java's clients write `node-1`, librdkafka `1`. Connections to bootstrap servers have negative
numbers, those to coordinators numbers close to 2^31."""
_NODE_KEYS: Final = ("node_id", "node.id")


class PushedLatency(NamedTuple):
    """Requests of one client instance to one broker, in ms."""

    client: PushingClient
    role: str
    """`producer` or `consumer`."""
    broker: int
    avg_ms: float | None
    max_ms: float | None

    @property
    def api(self) -> str:
        """The API of most of these requests."""
        return API_OF[self.role]

    @property
    def place(self) -> tuple[int, str, str, str]:
        """Its key in `measured_times`."""
        return self.broker, self.client.user, self.client.client_id, self.api


def measured_times(
    answers: Iterable[PushedMetricsAnswer],
) -> dict[tuple[int, str, str, str], float]:
    """The mean times in ms that brokers measure of clients' requests, by broker, user, client id,
    and API.
    """
    return {
        (answer.broker, each.user, each.client_id, each.api): each.mean_us / 1_000
        for answer in answers
        for each in answer.measured
    }


def latest_clients(answers: Iterable[PushedMetricsAnswer]) -> list[PushingClient]:
    """Each client instance as the broker has it that it pushed to last; the latest first."""
    found: dict[str, PushingClient] = {}
    for client in (each for answer in answers for each in answer.clients):
        known = found.get(client.client_instance_id)
        if known is None or known.ts_ms < client.ts_ms:
            found[client.client_instance_id] = client
    return sorted(found.values(), key=lambda each: (-each.ts_ms, each.client_instance_id))


def pushed_latencies(clients: Iterable[PushingClient]) -> list[PushedLatency]:
    """The latencies that these clients pushed; closed ones are left out."""
    found = []
    for client in clients:
        if client.is_closed:
            continue
        times: dict[tuple[str, int], dict[str, float]] = {}
        for each in client.values:
            place = _place(each)
            if place is not None:
                role, figure, broker = place
                times.setdefault((role, broker), {})[figure] = each.value
        found += [
            PushedLatency(client, role, broker, figures.get("avg"), figures.get("max"))
            for (role, broker), figures in sorted(times.items())
        ]
    return found


def _place(value: PushedValue) -> tuple[str, str, int] | None:
    """Role, figure and broker of a latency; None for another metric, or another node."""
    named = _NAME.fullmatch(value.name)
    if named is None:
        return None
    node = next((each.value for each in value.labels if each.key in _NODE_KEYS), "")
    broker = _NODE.fullmatch(node)
    return None if broker is None else (named[1], named[2], int(broker[1]))
