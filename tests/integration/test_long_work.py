"""Batches that open to hundreds of megabytes hold up nobody but whoever sends or searches them."""

import time
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, build_batch
from tests.support.handler_requests import list_offsets_of, offsets_in, produced_in
from tests.support.kafka_wire import WireClient, metadata_request, produce_to
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic

OPENS_TO = 200_000_000
SERVED_MEANWHILE = 30


@pytest.fixture(scope="module")
def batch() -> bytes:
    """Some 200 KB."""
    now_ms = time.time_ns() // 1_000_000
    return bytes(build_batch([NewRecord(bytes(OPENS_TO), b"k", now_ms)], codec=Compression.GZIP))


def served_during(asking: WireClient, bystander: WireClient, request: Any) -> tuple[int, Any]:
    """How many requests of a bystander are answered before this one, and the answer to this."""
    served = 0
    asking.send(request)
    while not asking.has_answer:
        bystander.call(metadata_request())
        served += 1
    return served, asking.receive()


@pytest.mark.parametrize(
    "configs", [{}, {"cleanup.policy": "compact"}, {"compression.type": "lz4"}]
)
def test_a_bystander_is_served_while_a_long_batch_is_checked_and_searched(
    cluster: Cluster, batch: bytes, configs: dict[str, str]
) -> None:
    topic = create_topic(cluster, assignments=[[0]], configs=configs)
    with WireClient(cluster.addresses[0]) as asking, WireClient(cluster.addresses[0]) as bystander:
        served, answer = served_during(asking, bystander, produce_to((topic, 0, batch), acks=1))
        assert [one.error_code for one in produced_in(answer)] == [ErrorCode.none]
        assert served >= SERVED_MEANWHILE
        searched = list_offsets_of(topic, (0, 0))
        served, answer = served_during(asking, bystander, searched)
        assert [one.offset for one in offsets_in(answer)] == [0]
        assert served >= SERVED_MEANWHILE
