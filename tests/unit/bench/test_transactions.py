"""The parts of `bench/transactions.py` that need neither Kafka nor a cluster."""

import socket
import threading
from datetime import timedelta

import pytest

from bench import raw_transactions
from bench.beside_run import TITLES
from bench.foreign_clients import ToolFailed
from bench.raw_client import Problem
from bench.raw_transactions import (
    VERSIONS,
    BlockingConnection,
    TransactionalProducer,
    produce_error,
    read_answer,
    repeated,
)
from bench.transaction_clients import transacted
from bench.transaction_loads import LOADS
from cluster.model.error_codes import ErrorCode
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header
from cluster.protocol.messages import EndTxnResponse
from cluster.protocol.produce_codec import (
    ProducedPartition,
    pack_produce_response,
    scan_produce_request,
)
from cluster.records.batch import read_header

_SIZE_AND_CORRELATION_ID = 8


def _a_producer() -> TransactionalProducer:
    producer = TransactionalProducer("payments")
    producer.take(
        EndTxnResponse(
            throttle_time=timedelta(0), error_code=ErrorCode.none, producer_id=7, producer_epoch=3
        )
    )
    return producer


def test_batches_of_a_transaction_continue_the_sequence_of_their_partition() -> None:
    producer = _a_producer()
    sequences = []
    for partitions in ([4], [4, 5]):
        frame = memoryview(producer.produce_frame("t", partitions, [b"a", b"b"]))[4:]
        header = parse_request_header(frame)
        assert (header.api_key, header.api_version) == (ApiKey.PRODUCE, VERSIONS[ApiKey.PRODUCE])
        request = scan_produce_request(header.api_version, frame, header.body_position)
        assert request.transactional_id == "payments"
        [(name, _, produced)] = request.topics
        assert name == "t"
        for number, records in produced:
            assert records is not None
            batch = read_header(records)
            assert batch.is_transactional
            assert (batch.producer_id, batch.producer_epoch) == (7, 3)
            sequences.append((number, batch.base_sequence))
    assert sequences == [(4, 0), (4, 2), (5, 0)]


def test_a_transaction_begins_with_the_epoch_that_the_end_of_the_last_one_brought() -> None:
    producer = _a_producer()
    producer.produce_frame("t", [0], [b"a"])
    frame = producer.end_frame(commits=True)[4:]
    header = parse_request_header(frame)
    ended = decode_request(header.api_key, header.api_version, frame, header.body_position)
    assert (ended.transactional_id, ended.producer_id, ended.producer_epoch) == ("payments", 7, 3)
    response = encode_response(
        ApiKey.END_TXN,
        VERSIONS[ApiKey.END_TXN],
        7,
        EndTxnResponse(
            throttle_time=timedelta(0),
            error_code=ErrorCode.none,
            producer_id=7,
            producer_epoch=4,
        ),
    )
    producer.take(read_answer(ApiKey.END_TXN, response[_SIZE_AND_CORRELATION_ID:]))
    assert producer.epoch == 4
    assert producer.sequences == {}


def test_the_error_of_a_produced_batch_is_found() -> None:
    outcome = ProducedPartition(0, int(ErrorCode.concurrent_transactions))
    topics = [("topic", None, [outcome])]
    response = pack_produce_response(VERSIONS[ApiKey.PRODUCE], 7, topics, 0, [])
    answer = bytes(response)[_SIZE_AND_CORRELATION_ID:]
    assert produce_error(answer, "topic") is ErrorCode.concurrent_transactions


def test_a_request_is_repeated_only_while_its_error_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_transactions, "BACKOFF_S", 0.0)
    codes = iter([ErrorCode.concurrent_transactions, ErrorCode.none])
    assert repeated(lambda: (next(codes), "answer"), "EndTxn") == "answer"
    with pytest.raises(Problem, match="EndTxn was answered with producer_fenced"):
        repeated(lambda: (ErrorCode.producer_fenced, None), "EndTxn")


def test_an_answer_that_comes_in_pieces_is_read_whole() -> None:
    frame = bytes([0, 0, 0, 6, 0, 0, 0, 7, 1, 2])

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            for piece in (frame[:2], frame[2:9], frame[9:]):
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = threading.Thread(target=answer, args=(listener,), daemon=True)
        broker.start()
        with BlockingConnection(listener.getsockname()) as connection:
            assert connection.call(b"request") == bytes([1, 2])
        broker.join()


def test_the_output_of_the_java_client_is_read() -> None:
    done = transacted("2 20 0.5\n1500000 2500000 \n")
    assert done == (2, 20, 0.5, [1.5, 2.5])


@pytest.mark.parametrize("output", ["", "0 0 0.0\n\n"])
def test_a_java_client_that_committed_nothing_is_an_error(output: str) -> None:
    with pytest.raises(ToolFailed, match="committed nothing"):
        transacted(output)


def test_row_names_are_unique_within_a_cluster_size() -> None:
    names = [(load.brokers, name) for load in LOADS for name, _ in load.row_names()]
    assert len(names) == len(set(names))
    assert {load.brokers for load in LOADS} == set(TITLES)
