"""Produce requests of one connection that overtake those before them, through a real socket."""

import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.publisher import MetricPublisher
from cluster.brokers.network.connection import MuteReason
from cluster.brokers.network.pending_answers import PENDING_MAX, PENDING_MAX_OF_ALL
from cluster.brokers.network.socket_server import NetworkOptions, SocketServer
from cluster.metrics.mmap_stats import MmapStats
from cluster.model.errors import ErrorCode
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.runtime.acceptor import Listener
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    fetch_request,
    header_of,
    metadata_request,
    produce_to,
    sized,
)
from tests.support.manual_background import ManualBackground
from tests.support.turning import turn_until

IDLE_MS = 600_000
BOTH = a_partition([BROKER, OTHER])


class Client(WireClient):
    """A client that can end its stream, and knows what has not arrived."""

    @property
    def underway_bytes(self) -> int:
        """How many bytes the broker's end of the connection has not received."""
        if self._socket.fileno() < 0:
            return 0
        (count,) = struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))
        return int(count)

    def end_stream(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def send_silent(self, message: Any) -> None:
        """Send a request that has no answer."""
        self.send(message)
        self._expected.pop()


class Broker:
    """A broker with a socket server; `turn` runs its loop, the followers are the test's."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        options = NetworkOptions(10 << 20, 100, 100, IDLE_MS, -1, -1, -1, 10)
        self.server = SocketServer(stage.loop, options)
        self.port = self.server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
        self.server.serve(stage.pipeline.on_frame, may_go_ahead=stage.pipeline.may_go_ahead)
        self.clients: list[Client] = []
        stage.update(a_topic("t", BOTH, BOTH))

    def connect(self) -> Client:
        client = Client(("127.0.0.1", self.port), timeout_s=30)
        self.clients.append(client)
        self.until(lambda: self.server.connection_count == len(self.clients), "the connection")
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.close()

    def until(self, condition: Callable[[], object], what: str) -> None:
        turn_until(self.stage.loop, condition, what)

    def turn(self) -> None:
        self.until(lambda: not any(each.underway_bytes for each in self.clients), "requests")
        for _ in range(4):
            self.stage.turn()

    def log_end(self, number: int = 0) -> int:
        return self.stage.partition("t", number).log.log_end_offset

    def follow(self, number: int = 0, end: int | None = None) -> None:
        """The follower has everything, or everything before `end`."""
        partition = self.stage.partition("t", number)
        self.stage.follower_fetches(OTHER, partition, self.log_end(number) if end is None else end)
        self.turn()


@pytest.fixture
def counters() -> BrokerCounters:
    return BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])


@pytest.fixture
def stage(tmp_path: Path, counters: BrokerCounters) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path, counters=counters) as one:
        yield one


@pytest.fixture
def broker(stage: HandlerStage) -> Iterator[Broker]:
    one = Broker(stage)
    yield one
    one.close()


def produce(number: int = 0, acks: int = -1, value: bytes = b"v", timeout_ms: int = 60_000) -> Any:
    return produce_to(("t", number, a_batch(value)), acks=acks, timeout_ms=timeout_ms)


def send(broker: Broker, client: Client, *messages: Any) -> None:
    client.send_bytes(b"".join(client.frame(message) for message in messages))
    broker.turn()


def results(client: Client, count: int) -> list[tuple[int, int]]:
    """Error codes and base offsets; the client checks the order by the correlation ids."""
    answers = [produced_in(client.receive())[0] for _ in range(count)]
    return [(one.error_code, one.base_offset) for one in answers]


def test_two_hundred_requests_take_one_round(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, *[produce()] * 200)
    assert broker.log_end() == 200
    assert broker.stage.commit_waits.size == 200
    assert not client.has_answer
    broker.follow()
    assert results(client, 200) == [(0, offset) for offset in range(200)]
    assert broker.stage.commit_waits.size == 0
    assert broker.server.pending_weight == 0


def test_answers_keep_the_order_of_requests_when_partitions_advance_in_another(
    broker: Broker,
) -> None:
    client = broker.connect()
    send(broker, client, produce(0), produce(1), produce(0))
    broker.follow(1)
    assert not client.has_answer
    broker.follow(0, end=1)
    assert results(client, 2) == [(0, 0), (0, 0)]
    broker.follow(0)
    assert results(client, 1) == [(0, 1)]


def test_immediate_answers_wait_for_earlier_ones(broker: Broker) -> None:
    client = broker.connect()
    producer = ProducerIdentity(7, 0, 0)
    first = produce_to(("t", 0, a_batch(producer=producer)), timeout_ms=60_000)
    unknown = produce(9)
    send(broker, client, first, produce(acks=1), first, unknown)
    client.send_silent(produce(acks=0))
    send(broker, client, produce(acks=1))
    assert broker.log_end() == 4
    assert not client.has_answer
    broker.follow()
    missing = ErrorCode.unknown_topic_or_partition
    assert results(client, 5) == [(0, 0), (0, 1), (0, 0), (missing, -1), (0, 3)]


@pytest.mark.parametrize(
    "other", [metadata_request("t"), fetch_request("t", 0)], ids=["metadata", "fetch"]
)
def test_other_requests_wait_for_the_answers_before_them(broker: Broker, other: Any) -> None:
    client = broker.connect()
    send(broker, client, produce(), other, produce(acks=1))
    assert broker.log_end() == 1
    broker.follow()
    assert results(client, 1) == [(0, 0)]
    client.receive()
    assert results(client, 1) == [(0, 1)]


def test_failures_of_waiting_requests_arrive_in_order(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, *[produce()] * 3)
    broker.follow(0, end=1)
    led = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    broker.stage.update(a_topic("t", led, BOTH))
    broker.turn()
    send(broker, client, produce(), produce(1))
    broker.follow(1)
    lost = ErrorCode.not_leader_or_follower
    assert results(client, 5) == [(0, 0), (lost, -1), (lost, -1), (lost, -1), (0, 0)]


def test_waiting_requests_time_out_in_order(broker: Broker) -> None:
    client = broker.connect()
    late = ErrorCode.request_timed_out
    send(broker, client, produce(timeout_ms=2_000), produce(timeout_ms=500), produce())
    broker.stage.pass_time(500)
    broker.turn()
    assert not client.has_answer
    broker.stage.pass_time(1_500)
    broker.turn()
    assert results(client, 2) == [(late, -1), (late, -1)]
    broker.follow()
    assert results(client, 1) == [(0, 2)]


def test_long_checked_batch_keeps_its_place_before_the_next_request(tmp_path: Path) -> None:
    thread = ManualBackground()
    with HandlerStage(tmp_path, background=thread.only_for("long-work")) as stage:
        broker = Broker(stage)
        client = broker.connect()
        batches = [
            bytes(
                build_batch(
                    [NewRecord(bytes(size), b"k", WALL_MS)],
                    codec=Compression.GZIP,
                    producer=ProducerIdentity(7, 0, sequence),
                )
            )
            for sequence, size in enumerate((10, 300_000, 300_000, 10))
        ]
        messages = [produce_to(("t", 0, batch), timeout_ms=60_000) for batch in batches]
        send(broker, client, *messages)
        assert broker.log_end() == 1
        while thread.do_one():
            broker.turn()
        assert broker.log_end() == 4
        assert not client.has_answer
        broker.follow()
        assert results(client, 4) == [(0, offset) for offset in range(4)]
        broker.close()


# -- errors and ends -------------------------------------------------------------------------------


def test_failed_request_without_an_answer_closes_after_the_earlier_answers(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, produce(), produce(9, acks=0), produce())
    assert broker.log_end() == 1
    broker.follow()
    assert results(client, 1) == [(0, 0)]
    with pytest.raises(ClosedByPeer):
        client.receive_frame()


def test_unsupported_version_closes_after_the_earlier_answers(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, produce())
    client.send_bytes(sized(header_of(0, 99)))
    broker.turn()
    assert broker.server.connection_count == 1
    broker.follow()
    assert results(client, 1) == [(0, 0)]
    with pytest.raises(ClosedByPeer):
        client.receive_frame()


def test_client_that_ends_its_stream_receives_the_pending_answers(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, produce(), produce())
    client.end_stream()
    broker.turn()
    broker.follow()
    assert results(client, 2) == [(0, 0), (0, 1)]
    assert client.wait_for_close() == b""


def test_closed_connection_drops_its_waits_and_keeps_its_records(broker: Broker) -> None:
    client, other = broker.connect(), broker.connect()
    send(broker, other, produce())
    send(broker, client, produce(acks=1), produce(), produce(1))
    client.close()  # a reset, since an answer is unread
    broker.until(lambda: broker.server.connection_count == 1, "the end of the connection")
    assert broker.stage.commit_waits.size == 1
    assert broker.server.pending_weight == 1
    broker.follow()
    assert results(other, 1) == [(0, 0)]
    assert broker.log_end() == 3


def test_connection_with_pending_answers_is_not_idle(broker: Broker) -> None:
    client = broker.connect()
    send(broker, client, produce(timeout_ms=3 * IDLE_MS))
    broker.stage.pass_time(2 * IDLE_MS)
    broker.turn()
    assert broker.server.connection_count == 1
    broker.follow()
    assert results(client, 1) == [(0, 0)]


# -- bounds ----------------------------------------------------------------------------------------


def test_a_connection_has_a_limited_number_of_pending_answers(broker: Broker) -> None:
    client = broker.connect()
    count = PENDING_MAX + 10
    for _ in range(count // 6):
        send(broker, client, *[produce()] * 6)
    assert broker.log_end() == PENDING_MAX
    broker.follow()
    assert broker.log_end() == count // 6 * 6
    broker.follow()
    assert results(client, count // 6 * 6) == [(0, each) for each in range(count // 6 * 6)]


def test_an_answer_counts_for_each_partition_of_its_request(broker: Broker) -> None:
    client = broker.connect()
    many = produce_to(*[("t", each % 2, a_batch()) for each in range(100)], timeout_ms=60_000)
    send(broker, client, *[many] * 10)
    assert broker.server.pending_weight == 600
    assert broker.log_end() == 300


def test_a_huge_request_counts_as_much_as_a_connection_may_have(broker: Broker) -> None:
    client = broker.connect()
    huge = produce_to(*[("t", 0, a_batch())] * (3 * PENDING_MAX), timeout_ms=60_000)
    send(broker, client, huge, produce())
    assert broker.log_end() == 3 * PENDING_MAX
    assert broker.server.pending_weight == PENDING_MAX
    broker.follow()
    assert results(client, 1) == [(0, 0)]
    assert broker.log_end() == 3 * PENDING_MAX + 1


def test_one_request_at_a_time_is_handled_while_too_many_answers_are_pending(
    broker: Broker,
) -> None:
    broker.server.pending_weight += PENDING_MAX_OF_ALL
    clients = [broker.connect() for _ in range(2)]
    for client in clients:
        send(broker, client, *[produce()] * 3)
    for rounds in (1, 2, 3):
        assert broker.log_end() == 2 * rounds
        broker.follow()
    for client in clients:
        assert [code for code, _ in results(client, 3)] == [0, 0, 0]
    assert broker.server.pending_weight == PENDING_MAX_OF_ALL


# -- quotas ----------------------------------------------------------------------------------------


def limit(broker: Broker, bytes_per_second: float) -> None:
    broker.stage.quotas.replace_quotas(
        {QuotaEntity(None, "wire"): {QuotaKind.PRODUCE: bytes_per_second}}
    )


def test_bytes_are_charged_at_the_append_so_that_a_pipeline_does_not_exceed_a_quota(
    broker: Broker,
) -> None:
    client = broker.connect()
    limit(broker, 2_500.0)
    send(broker, client, *[produce(value=b"x" * 1_000)] * 20)
    assert broker.log_end() == 3  # the third exceeds it
    state = broker.stage.quotas.state_of(
        QuotaKind.PRODUCE, "ANONYMOUS", "wire", broker.stage.loop.now_ms
    )
    assert state is not None
    assert 3_000 < state.rate < 4_000


def test_wait_for_replicas_counts_as_part_of_the_delay(broker: Broker) -> None:
    client = broker.connect()
    limit(broker, 1_000.0)
    send(broker, client, produce(value=b"x" * 3_000), produce())
    assert broker.log_end() == 1
    broker.stage.pass_time(800)
    broker.follow()
    answer = client.receive()
    assert codes_of(produced_in(answer)) == [0]
    left_ms = answer.throttle_time.total_seconds() * 1_000
    assert 1_200 < left_ms < 1_500  # of a delay of 2.1 s
    assert broker.server.muted_count(MuteReason.QUOTA) == 1
    broker.stage.pass_time(round(left_ms) - 1)
    broker.turn()
    assert broker.log_end() == 1
    broker.stage.pass_time(1)
    broker.turn()
    assert broker.log_end() == 2


def test_answer_is_not_throttled_when_the_delay_has_passed_meanwhile(broker: Broker) -> None:
    client = broker.connect()
    limit(broker, 1_000.0)
    send(broker, client, produce(value=b"x" * 1_500), produce(acks=1))
    broker.stage.pass_time(3_000)
    broker.follow()
    assert client.receive().throttle_time.total_seconds() == 0
    assert broker.server.muted_count(MuteReason.QUOTA) == 0
    assert broker.log_end() == 2


@pytest.mark.parametrize("acks", [1, 0])
def test_throttled_answer_waits_for_the_earlier_ones_and_mutes_then(
    broker: Broker, acks: int
) -> None:
    client = broker.connect()
    limit(broker, 2_000.0)
    send(broker, client, produce(value=b"x" * 500), produce(acks=acks, value=b"x" * 3_000))
    send(broker, client, produce(acks=1))
    assert broker.log_end() == 2
    assert broker.server.muted_count(MuteReason.QUOTA) == 0
    broker.stage.pass_time(300)
    broker.follow()
    assert broker.server.muted_count(MuteReason.QUOTA) == 1
    assert client.receive().throttle_time.total_seconds() == 0
    if acks:
        assert 0.3 < client.receive().throttle_time.total_seconds() < 1
    assert broker.log_end() == 2
    broker.stage.pass_time(1_000)
    broker.turn()
    assert broker.log_end() == 3


def test_client_within_its_quota_is_not_held_back(broker: Broker) -> None:
    client = broker.connect()
    limit(broker, 1_000_000.0)
    send(broker, client, *[produce()] * 20)
    assert broker.log_end() == 20


# -- times -----------------------------------------------------------------------------------------


def test_replica_wait_is_measured_as_remote_time(
    broker: Broker, counters: BrokerCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that arrive later do not make an earlier one look as if it had arrived later."""
    client = broker.connect()
    broker.stage.pass_time(1_000)
    noted: list[tuple[int, ...]] = []
    monkeypatch.setattr(counters.times, "note", lambda _api, _weight, *each: noted.append(each))
    send(broker, client, produce())
    broker.stage.pass_time(40)
    send(broker, client, produce())
    broker.stage.pass_time(60)
    broker.follow()
    assert results(client, 2) == [(0, 0), (0, 1)]
    arrived_ns, began_ns, handled_ns, answered_ns, _, _, sent_ns = noted[0]
    assert arrived_ns == began_ns == handled_ns
    assert (answered_ns - arrived_ns, sent_ns - arrived_ns) == (100_000_000, 100_000_000)


def test_waiting_partitions_are_counted_by_the_gauges_of_the_purgatory(
    broker: Broker, counters: BrokerCounters
) -> None:
    def gauges() -> list[int]:
        keys = ("ProducePurgatorySize", "PurgatorySize")
        return [counters.stats.counts[counters.slots[key]] for key in keys]

    def tick() -> list[int]:
        stage.pass_time(1_000)
        publisher.on_tick(stage.loop.now_ms, WALL_MS)
        broker.turn()
        return gauges()

    stage = broker.stage
    watched = replace(stage.core.metrics.watched, clients=broker.server)
    publisher = MetricPublisher(
        BROKER, counters, watched, None, 1_000, stage.loop.now_ms, WALL_MS, stage.slices
    )
    client = broker.connect()
    two = produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), timeout_ms=IDLE_MS)
    send(broker, client, two, produce(timeout_ms=IDLE_MS))
    broker.until(lambda: tick() == [3, 3], "the gauges")
    broker.follow(0)
    broker.follow(1)
    broker.until(lambda: tick() == [0, 0], "the gauges")
