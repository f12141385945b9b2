"""Transactional producers of nothing but connections and packed requests.

They use KIP-890's transactions as Kafka 4's own client does: Produce 12 adds its partition to the
transaction, and the answer to EndTxn 5 has the next epoch.
"""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Self

from bench.group_client import CLIENT_ID, Connection, places
from bench.raw_client import Problem
from cluster.client.exchange import encode_request
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.error_codes import ErrorCode
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from cluster.protocol import messages
from cluster.protocol.api import ApiKey
from cluster.protocol.writer import NO_TAGS, varint
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.running_cluster import Address

VERSIONS: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.END_TXN: 5,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
}
"""All of them have tags."""
TIMEOUT: Final = timedelta(minutes=15)
"""Of a transaction: the most that brokers allow."""
BACKOFF_S: Final = 0.02
"""As Kafka's client waits before it repeats a request that found another transition under way."""
PATIENCE_S: Final = 60.0
_ACKS_ALL: Final = -1
_TRANSACTION: Final = 1
"""The kind of key in FindCoordinator."""
_SIZE: Final = struct.Struct(">i")
_AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
    }
)


class TransactionalProducer:
    """What a producer knows of itself."""

    __slots__ = ("epoch", "id", "sequences", "transactional_id")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.id = -1
        self.epoch = -1
        self.sequences: dict[int, int] = {}
        """The next one of each partition."""

    def init_frame(self) -> bytes:
        """InitProducerId."""
        return _frame(
            ApiKey.INIT_PRODUCER_ID,
            messages.InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout=TIMEOUT
            ),
        )

    def end_frame(self, *, commits: bool) -> bytes:
        """EndTxn."""
        return _frame(
            ApiKey.END_TXN,
            messages.EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                committed=commits,
            ),
        )

    def produce_frame(
        self, topic: str, partitions: Sequence[int], values: Sequence[bytes]
    ) -> bytes:
        """Produce with the next batch of each partition."""
        one = varint(2)
        body = [_text(self.transactional_id), struct.pack(">hi", _ACKS_ALL, 30_000)]
        body += [one, _text(topic), varint(len(partitions) + 1)]
        for partition in partitions:
            batch = self._next_batch(partition, values)
            body += [struct.pack(">i", partition), varint(len(batch) + 1), batch, NO_TAGS]
        body += [NO_TAGS, NO_TAGS]
        head = struct.pack(">hhih", ApiKey.PRODUCE, VERSIONS[ApiKey.PRODUCE], 7, len(CLIENT_ID))
        content = b"".join([head, CLIENT_ID, NO_TAGS, *body])
        return _SIZE.pack(len(content)) + content

    def _next_batch(self, partition: int, values: Sequence[bytes]) -> bytes:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)
        now_ms = int(time.time() * 1000)
        batch = build_batch(
            [NewRecord(value=value, timestamp_ms=now_ms) for value in values],
            producer=ProducerIdentity(self.id, self.epoch, sequence),
            is_transactional=True,
        )
        return bytes(batch)

    def take(self, answer: messages.InitProducerIdResponse | messages.EndTxnResponse) -> None:
        """Adopt the epoch of an answer."""
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()


def read_answer(api_key: ApiKey, answer: bytes) -> Any:
    """A response behind its correlation id."""
    return messages.READ_RESPONSE[api_key](answer, 1, len(answer), VERSIONS[api_key])[0]


def produce_error(answer: bytes, topic: str) -> ErrorCode:
    """The error of the first partition in a response behind its correlation id."""
    # tags, count of topics, name, count of partitions, index
    return ErrorCode(struct.unpack_from(">h", answer, 1 + 1 + 1 + len(topic) + 1 + 4)[0])


def find_frame(transactional_ids: Sequence[str]) -> bytes:
    """FindCoordinator, which also has the topic created."""
    return _frame(
        ApiKey.FIND_COORDINATOR,
        messages.FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=tuple(transactional_ids)
        ),
    )


def describe_frame(transactional_ids: Sequence[str]) -> bytes:
    """DescribeTransactions."""
    return _frame(
        ApiKey.DESCRIBE_TRANSACTIONS,
        messages.DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids)),
    )


def _frame(api_key: ApiKey, request: Any) -> bytes:
    return encode_request(api_key, VERSIONS[api_key], 7, CLIENT_ID.decode(), request)


def _text(text: str) -> bytes:
    """A compact string."""
    raw = text.encode()
    return varint(len(raw) + 1) + raw


# -- one producer ----------------------------------------------------------------------------------


class BlockingConnection:
    """One request at a time, with the least delay that Python allows."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, frame: bytes) -> bytes:
        """Send a request. Returns the answer behind its correlation id. Raises Problem."""
        self._socket.sendall(frame)
        data = self._socket.recv(1 << 16)
        while len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
            more = self._socket.recv(1 << 16)
            if not more:
                raise Problem("the broker has closed the connection")
            data += more
        return data[2 * _SIZE.size :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def repeated(call: Callable[[], tuple[ErrorCode, Any]], what: str) -> Any:
    """Repeat a request until it succeeds. Raises Problem for an error that stays."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        error, answer = call()
        if error is ErrorCode.none:
            return answer
        if error not in _AGAIN or time.monotonic() > deadline:
            raise Problem(f"{what} was answered with {error.name}")
        time.sleep(BACKOFF_S)


def run_transactions(
    coordinator: Address, leader: Address, topic: str, transactional_id: str, seconds: float
) -> tuple[int, list[float]]:
    """Transactions of one record of 100 bytes in partition 0, one after another.

    Returns their number, and the times that EndTxn took, in milliseconds.
    """
    producer = TransactionalProducer(transactional_id)
    with BlockingConnection(coordinator) as asked, BlockingConnection(leader) as written:

        def call(api_key: ApiKey, frame: bytes) -> tuple[ErrorCode, Any]:
            answer = read_answer(api_key, asked.call(frame))
            return answer.error_code, answer

        def write(frame: bytes) -> tuple[ErrorCode, Any]:
            return produce_error(written.call(frame), topic), None

        started = repeated(
            lambda: call(ApiKey.INIT_PRODUCER_ID, producer.init_frame()), "InitProducerId"
        )
        producer.take(started)
        waits: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            batch = producer.produce_frame(topic, [0], [b"x" * 100])
            repeated(lambda batch=batch: write(batch), "Produce")  # type: ignore[misc]
            frame = producer.end_frame(commits=True)
            began = time.perf_counter()
            ended = repeated(lambda frame=frame: call(ApiKey.END_TXN, frame), "EndTxn")  # type: ignore[misc]
            waits.append((time.perf_counter() - began) * 1e3)
            producer.take(ended)
    return len(waits), waits


# -- many producers --------------------------------------------------------------------------------


class Worker:
    """Requests one after another, over a connection to every broker."""

    def __init__(self, connections: Sequence[Connection], homes: Mapping[int, int]) -> None:
        """`homes` has the broker that leads each partition of `__transaction_state`."""
        self.connections = connections
        self._homes = homes

    async def init(self, producer: TransactionalProducer) -> None:
        """Begin to use a transactional id."""
        producer.take(
            await self._coordinate(ApiKey.INIT_PRODUCER_ID, producer.init_frame(), producer)
        )

    async def end(self, producer: TransactionalProducer, *, commits: bool) -> None:
        """End its transaction."""
        frame = producer.end_frame(commits=commits)
        producer.take(await self._coordinate(ApiKey.END_TXN, frame, producer))

    async def write(
        self,
        producer: TransactionalProducer,
        topic: str,
        partition: int,
        leader: int,
        values: Sequence[bytes],
    ) -> None:
        """Write a batch in its transaction."""
        frame = producer.produce_frame(topic, [partition], values)

        async def call() -> tuple[ErrorCode, Any]:
            return produce_error(await self.connections[leader].send(frame), topic), None

        await _repeated(call, "Produce")

    async def _coordinate(
        self, api_key: ApiKey, frame: bytes, producer: TransactionalProducer
    ) -> Any:
        home = self._homes[partition_of(producer.transactional_id, len(self._homes))]

        async def call() -> tuple[ErrorCode, Any]:
            answer = read_answer(api_key, await self.connections[home].send(frame))
            return answer.error_code, answer

        return await _repeated(call, api_key.name)


async def _repeated(call: Callable[[], Awaitable[tuple[ErrorCode, Any]]], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        error, answer = await call()
        if error is ErrorCode.none:
            return answer
        if error not in _AGAIN or time.monotonic() > deadline:
            raise Problem(f"{what} was answered with {error.name}")
        await asyncio.sleep(BACKOFF_S)


async def homes_of(connection: Connection) -> dict[int, int]:
    """The leader of each partition of `__transaction_state`, once all have one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        await connection.send(find_frame(["any"]))
        found = await places(connection, TRANSACTION_STATE_TOPIC)
        if found and all(place.leader >= 0 for place in found.values()):
            return {number: place.leader for number, place in found.items()}
        if time.monotonic() > deadline:
            raise Problem(f"{TRANSACTION_STATE_TOPIC} has partitions without a leader")
        await asyncio.sleep(0.1)


async def work(
    addresses: Sequence[Address],
    workers: int,
    items: Sequence[Any],
    act: Callable[[Worker, Any], Awaitable[None]],
) -> float:
    """Have some workers take the items in their order. Returns the seconds that it took."""
    opened: list[Connection] = []
    try:
        made = []
        homes: dict[int, int] = {}
        for _ in range(workers):
            connections = [await Connection.open(address) for address in addresses]
            opened += connections
            homes = homes or await homes_of(connections[0])
            made.append(Worker(connections, homes))
        left = iter(items)

        async def take_items(worker: Worker) -> None:
            for item in left:
                await act(worker, item)

        began = time.perf_counter()
        await asyncio.gather(*map(take_items, made))
        return time.perf_counter() - began
    finally:
        for connection in opened:
            connection.close()
