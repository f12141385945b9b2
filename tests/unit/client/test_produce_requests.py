"""The broker's codec reads these requests, and its answers are read."""

import pytest

from cluster.client.produce_requests import VERSION, Answer, produce_body, read_answer
from cluster.model.errors import ErrorCode, PeerError, RecordError
from cluster.protocol.produce_codec import (
    ProducedPartition,
    pack_produce_response,
    scan_produce_request,
)


def answer_with(partition: ProducedPartition) -> bytes:
    """The body of a response, behind size and correlation id."""
    return pack_produce_response(VERSION, 5, [("orders", None, [partition])])[8:]


def test_the_broker_reads_the_request() -> None:
    body = produce_body("orders", 3, b"records", 1_500)
    request = scan_produce_request(VERSION, memoryview(body), 0)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 1_500, None)
    ((name, _, ((index, records),)),) = request.topics
    assert (name, index, records) == ("orders", 3, b"records")


def test_an_accepted_batch() -> None:
    assert read_answer(answer_with(ProducedPartition(3, 0, 42))) == Answer(ErrorCode.none, 42, "")


def test_a_refused_batch_with_the_brokers_words() -> None:
    refused = ProducedPartition(3, int(ErrorCode.invalid_record), error_message="no key")
    assert read_answer(answer_with(refused)) == Answer(ErrorCode.invalid_record, -1, "no key")
    errors = ProducedPartition(
        3, int(ErrorCode.invalid_record), record_errors=[RecordError(0, "first is bad")]
    )
    assert read_answer(answer_with(errors)).message == "first is bad"


def test_a_malformed_answer_is_the_peers_mistake() -> None:
    whole = answer_with(ProducedPartition(3, 0, 42))
    for size in range(len(whole) - 6):
        with pytest.raises(PeerError):
            read_answer(whole[:size])
