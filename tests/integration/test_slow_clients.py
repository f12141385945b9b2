"""Many requests at once, clients that write or read slowly, and clients that do not read at all."""

import struct
from collections.abc import Iterator
from random import Random

import psutil
import pytest
from kio.index import load_response_schema

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.records.reader import read_records
from tests.support.broker_probes import batch_of, fetched, list_offsets_request, produced
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    fetch_request,
    frame_of,
    metadata_request,
    produce_request,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

LEADER = 0
MIB = 1 << 20


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, assignments=[[0, 1, 2]])


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.addresses[LEADER]) as opened:
        yield opened


@pytest.fixture
def bystander(cluster: Cluster) -> Iterator[WireClient]:
    """Another connection to the same broker, which must work before and after."""
    with WireClient(cluster.addresses[LEADER]) as opened:
        opened.call(metadata_request())
        yield opened
        assert len(opened.call(metadata_request()).brokers) == 3


def test_pipelined_requests_are_answered_in_order(cluster: Cluster, client: WireClient) -> None:
    name = create_topic(cluster, assignments=[[0, 1, 2]])
    frames, kinds = [], []
    for number in range(200):
        match number % 5:
            case 0:
                message = produce_request(name, bytes(batch_of(b"%d" % number)), acks=-1)
            case 1:
                message = produce_request(name, bytes(batch_of(b"%d" % number)), acks=1)
            case 2:  # waits: there is nothing at the end yet
                message = fetch_request(name, 0, max_wait_ms=5, min_bytes=MIB)
            case 3:
                message = metadata_request(name)
            case _:
                message = list_offsets_request(name, -1)
        frames.append(client.frame(message))
        kinds.append(number % 5)

    client.send_bytes(b"".join(frames))

    offsets = []
    for kind in kinds:
        answer = client.receive()
        if kind in (0, 1):
            ((partition,),) = (one.partition_responses for one in answer.responses)
            assert partition.error_code == ErrorCode.none
            offsets.append(partition.base_offset)
        elif kind == 2:
            ((partition,),) = (one.partitions for one in answer.responses)
            assert partition.high_watermark in (len(offsets), len(offsets) - 1)
        elif kind == 3:
            assert [topic.name for topic in answer.topics] == [name]
    assert offsets == list(range(80))


def test_acks_0_between_other_requests(cluster: Cluster, client: WireClient) -> None:
    name = create_topic(cluster, assignments=[[0, 1, 2]])
    frames = []
    for number in range(50):
        silent = produce_request(name, bytes(batch_of(b"%d" % number)), acks=0)
        frames.append(frame_of(silent, 1_000_000 + number))
        frames.append(client.frame(metadata_request(name)))

    client.send_bytes(b"".join(frames))

    for _ in range(50):
        assert [topic.name for topic in client.receive().topics] == [name]
    wait_until(lambda: fetched(client, name, 0).high_watermark == 50, "all to be committed")
    values = [record.value for record in read_records(fetched(client, name, 0).records)]
    assert values == [b"%d" % number for number in range(50)]


def test_request_byte_by_byte(client: WireClient, topic: str) -> None:
    before = fetched(client, topic, 0).high_watermark
    for byte in client.frame(produce_request(topic, bytes(batch_of(b"drop by drop")))):
        client.send_bytes(bytes([byte]))

    ((partition,),) = (one.partition_responses for one in client.receive().responses)
    assert (partition.error_code, partition.base_offset) == (ErrorCode.none, before)


@pytest.fixture(scope="module")
def fifty_megabytes(cluster: Cluster) -> tuple[str, bytes]:
    """A topic of one replica, and one of its fifty equal batches as it was produced."""
    name = create_topic(cluster, assignments=[[0]])
    batch = bytes(batch_of(Random(1).randbytes(1_000_000)))
    with WireClient(cluster.addresses[LEADER]) as client:
        for number in range(50):
            assert produced(client, name, batch, acks=1).base_offset == number
    return name, batch


def test_client_that_reads_no_answers_stalls_nobody(
    cluster: Cluster, bystander: WireClient, fifty_megabytes: tuple[str, bytes]
) -> None:
    name, _ = fifty_megabytes
    broker = psutil.Process(cluster.pid(LEADER))
    before = broker.memory_full_info().uss
    with WireClient(cluster.addresses[LEADER], receive_buffer=4096) as silent:
        for _ in range(40):  # two gigabytes of answers
            silent.send(fetch_request(name, 0, max_bytes=55 * MIB))
        for _ in range(200):
            bystander.call(metadata_request())
            assert produced(bystander, name, bytes(batch_of(b"meanwhile")), acks=1).base_offset > 0
        assert broker.memory_full_info().uss < before + 32 * MIB
        with pytest.raises((ClosedByPeer, TimeoutError)):
            raise_when_full(silent)


def raise_when_full(client: WireClient) -> None:
    """Send until the broker takes no more: it reads no request of who reads no answers."""
    client.set_timeout(0.5)
    while True:
        client.send_bytes(frame_of(metadata_request(), 1) * 1000)


def test_slow_reader_gets_fifty_megabytes(
    cluster: Cluster, bystander: WireClient, fifty_megabytes: tuple[str, bytes]
) -> None:
    name, batch = fifty_megabytes
    with WireClient(cluster.addresses[LEADER], receive_buffer=4096) as slow:
        slow.send(fetch_request(name, 0, max_bytes=55 * MIB))
        (size,) = struct.unpack(">i", slow.receive_bytes(4))
        assert size > 50 * len(batch)
        frame = bytearray()
        while len(frame) < size:
            frame += slow.receive_bytes(min(MIB, size - len(frame)))
            bystander.call(metadata_request())  # somebody else has a turn after every megabyte
    answer = WireClient.parse(bytes(frame), load_response_schema(ApiKey.FETCH, 12), 1)
    ((partition,),) = (one.partitions for one in answer.responses)
    records = list(read_records(partition.records))
    assert [record.offset for record in records[:50]] == list(range(50))
    assert {record.value for record in records[:50]} == {next(iter(read_records(batch))).value}
