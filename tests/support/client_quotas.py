"""Quotas in tests: raw clients with names of their own, limits that are lifted afterwards."""

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cluster.client.quota_requests import alter_quotas
from cluster.client.socket_client import SocketClient
from cluster.model.quotas import QuotaEntity
from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import WireClient, frame_of, produce_request
from tests.support.running_cluster import Cluster
from tests.support.waiting import wait_until

KIB = 1024


class NamedClient(WireClient):
    """A raw client with a client id of its own."""

    def __init__(self, address: tuple[str, int], client_id: str | None) -> None:
        super().__init__(address)
        self._client_id = client_id

    def frame(self, message: object) -> bytes:
        self._correlation_id += 1
        self._expected.append((self._correlation_id, message))
        return frame_of(message, self._correlation_id, self._client_id)


def send_as_many(cluster: Cluster, topic: str, client_ids: Sequence[str], broker: int = 0) -> None:
    """One small produce request as each of these clients, over one connection."""
    request = produce_request(topic, batch(10))
    with WireClient(cluster.addresses[broker]) as connection:
        for start in range(0, len(client_ids), 100):
            some = client_ids[start : start + 100]
            frames = (frame_of(request, number, name) for number, name in enumerate(some))
            connection.send_bytes(b"".join(frames))
            for _ in some:
                connection.receive_frame()


def a_client_id() -> str:
    return f"client-{uuid.uuid4().hex[:8]}"


def set_quota(
    cluster: Cluster, entity: QuotaEntity, broker: int = 0, **limits: float | None
) -> None:
    """Change quotas through one broker; returns when every broker says that it has them."""

    def told() -> list[int]:
        return [
            len(cluster.log_lines(each, f"quotas of {entity}:")) for each in range(cluster.size)
        ]

    before = told()
    with SocketClient.connect([cluster.addresses[broker]], "test") as client:
        alter_quotas(client, entity, limits)
    wait_until(
        lambda: all(now > then for now, then in zip(told(), before, strict=True)),
        f"quotas of {entity} on every broker",
    )


@contextmanager
def limited(cluster: Cluster, client_id: str, **limits: float) -> Iterator[None]:
    entity = QuotaEntity(None, client_id)
    set_quota(cluster, entity, 0, **limits)
    try:
        yield
    finally:
        set_quota(cluster, entity, 0, **dict.fromkeys(limits))


def batch(size_bytes: int) -> bytes:
    return bytes(build_batch([NewRecord(b"x" * size_bytes, timestamp_ms=int(time.time() * 1_000))]))
