"""Writes one message, acknowledged by all in-sync replicas."""

import random
import time
from collections.abc import Mapping
from typing import Final

from cluster.client.produce_requests import VERSION, Answer, produce_body, read_answer
from cluster.client.refusals import reason_of
from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import TopicFacts, topic_facts
from cluster.dashboard.broker_connection import connect
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.new_message import NewMessage
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.model.printable import one_line
from cluster.protocol.api import ApiKey

_ACKNOWLEDGED_WITHIN_S: Final = 10.0
"""For the answer of a leader that waits for replicas."""
_PATIENCE_S: Final = 5.0
"""For a leader that can be reached."""
_TRY_AGAIN_S: Final = 0.2
_MOVING: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available})
"""Answers to a message that the next leader may take. One that stops leading while it waits for
replicas gives them, too: then the message may be written twice."""
_APPENDED: Final = frozenset(
    {ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out}
)
"""Answers to a message that the leader has, and other replicas may not."""


def write_message(files: DataDir, addresses: Mapping[int, Address], message: NewMessage) -> Json:
    """Write it to its partition's leader; returns `partition` and `offset`.

    `addresses` by broker begin with those of live brokers. Raises UserError; one of a lost
    connection says that the message may have been written.
    """
    any_number = random.getrandbits(31)
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        with connect(files, addresses.values()) as client:
            partition, leader = _leader(client, message, any_number)
        answer = _tried(files, addresses, message, partition, leader)
        if answer is not None and answer.error_code is ErrorCode.none:
            return {"partition": partition, "offset": answer.base_offset}
        if answer is not None and answer.error_code not in _MOVING:
            raise UserError(_refusal(message, partition, answer))
        if time.monotonic() > deadline_s:
            raise UserError(
                f"not written: the leader of {message.topic}-{partition} did not answer within"
                f" {_PATIENCE_S:g} s"
                if leader is not None
                else f"not written: {message.topic}-{partition} has no leader at present"
            )
        time.sleep(_TRY_AGAIN_S)


def _tried(
    files: DataDir,
    addresses: Mapping[int, Address],
    message: NewMessage,
    partition: int,
    leader: int | None,
) -> Answer | None:
    """The leader's answer; None if it cannot be reached, so that nothing was written."""
    if leader is None or leader not in addresses:
        return None
    try:
        client = connect(files, [addresses[leader]])
    except UserError:
        return None
    with client:
        client.wait_for_answers(_ACKNOWLEDGED_WITHIN_S)
        return _send(client, message, partition)


def _leader(client: SocketClient, message: NewMessage, any_number: int) -> tuple[int, int | None]:
    """The partition for a message, and the broker that leads it."""
    try:
        topic: TopicFacts | None = topic_facts(client, message.topic)
    except Refused as refused:
        raise UserError(f"not written to {one_line(message.topic)}: {reason_of(refused)}") from None
    if topic is None:
        raise UserError(f"not written: there is no topic {one_line(message.topic)}")
    count = len(topic.partitions)
    partition = message.chosen_partition(count, any_number)
    if partition >= count:
        raise UserError(
            f"not written: {message.topic} has {count} partitions, none numbered {partition}"
        )
    return partition, topic.partitions[partition].leader


def _send(client: SocketClient, message: NewMessage, partition: int) -> Answer:
    timeout_ms = int(_ACKNOWLEDGED_WITHIN_S * 1_000)
    batch = message.batch(time.time_ns() // 1_000_000)
    try:
        sent = client.send(
            ApiKey.PRODUCE, VERSION, produce_body(message.topic, partition, batch, timeout_ms)
        )
        return read_answer(client.receive(sent))
    except (UserError, PeerError) as problem:
        raise UserError(
            f"no answer from the leader of {message.topic}-{partition}: {problem}; the message may"
            " have been written: look for it before you send it again"
        ) from None


def _refusal(message: NewMessage, partition: int, answer: Answer) -> str:
    why = reason_of(Refused(answer.error_code, answer.message))
    is_written = answer.error_code in _APPENDED
    verb = "written, but not acknowledged by enough replicas" if is_written else "not written"
    return f"{verb}: {message.topic}-{partition}: {why}"
