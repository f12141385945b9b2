"""Writes one message exactly once, acknowledged by all in-sync replicas."""

import random
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.client.produce_requests import VERSION, produce_body, read_answer
from cluster.client.producer_ids import new_producer
from cluster.client.refusals import PRODUCER, reason_of
from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import topic_facts
from cluster.dashboard.broker_connection import connect
from cluster.dashboard.missing_right import refusal_text
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.new_message import NewMessage
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.model.printable import one_line
from cluster.protocol.api import ApiKey

_ACKNOWLEDGED_WITHIN_S: Final = 10.0
"""For the answer of a leader that waits for replicas."""
_PATIENCE_S: Final = 5.0
"""For a leader that can be reached; once more after the message was sent without an answer."""
_TRY_AGAIN_S: Final = 0.2
_MOVING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.coordinator_not_available,  # no producer id at present
    }
)
"""Answers that may be others soon. A leader that loses its partition while it waits for replicas
gives the first one too: it has the message, and the next leader may have it."""
_APPENDED: Final = frozenset(
    {ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out}
)
"""Answers to a message that the leader has, and other replicas may not."""


def write_message(files: DataDir, addresses: Mapping[int, Address], message: NewMessage) -> Json:
    """Write it to its partition's leader; returns `partition` and `offset`.

    `addresses` by broker begin with those of live brokers. Raises UserError, which says whether
    the message was or may have been written.
    """
    return _Writing(files, addresses, message).outcome()


class _Prepared(NamedTuple):
    """What is sent each time: a retry in another partition or by another producer would be another
    message."""

    partition: int
    batch: bytearray


class _Writing:
    """Sends a message until a leader answers; the id of its producer makes retries harmless."""

    def __init__(
        self, files: DataDir, addresses: Mapping[int, Address], message: NewMessage
    ) -> None:
        self._files = files
        self._addresses = addresses
        self._message = message
        self._prepared: _Prepared | None = None
        self._is_in_doubt = False
        """Whether it was sent, and a leader may have it that has not acknowledged it."""
        self._problem = ""
        self._deadline_s = time.monotonic() + _PATIENCE_S

    def outcome(self) -> Json:
        while (answer := self._answer()) is None:
            if time.monotonic() > self._deadline_s:
                raise self._failed(self._problem)
            time.sleep(_TRY_AGAIN_S)
        partition, base_offset = answer
        return {"partition": partition, "offset": base_offset}

    def _answer(self) -> tuple[int, int] | None:
        """Partition and offset; None if trying again may help. Raises UserError."""
        try:
            with connect(self._files, self._addresses.values()) as client:
                prepared, leader = self._prepare(client)
        except UserError as problem:
            raise self._failed(str(problem)) from None
        except Refused as refused:
            if refused.code not in _MOVING:
                raise self._failed(self._reason(refused)) from None
            self._problem = f"{one_line(self._message.topic)}: {reason_of(refused)}"
            return None
        place = f"{self._message.topic}-{prepared.partition}"
        if leader is None or leader not in self._addresses:
            self._problem = f"{place} has no leader at present"
            return None
        try:
            client = connect(self._files, [self._addresses[leader]])
        except UserError as problem:
            self._problem = f"the leader of {place} does not answer: {problem}"
            return None
        with client:
            return self._sent(client, prepared, place)

    def _prepare(self, client: SocketClient) -> tuple[_Prepared, int | None]:
        """What to send, and the broker that leads its partition. Raises Refused, UserError."""
        message = self._message
        topic = topic_facts(client, message.topic)
        if topic is None:
            raise UserError(f"there is no topic {one_line(message.topic)}")
        count = len(topic.partitions)
        if self._prepared is None:
            partition = message.chosen_partition(count, random.getrandbits(31))
            if partition >= count:
                raise UserError(
                    f"{message.topic} has {count} partitions, none numbered {partition}"
                )
            batch = message.batch(time.time_ns() // 1_000_000, new_producer(client))
            self._prepared = _Prepared(partition, batch)
        partition = self._prepared.partition
        return self._prepared, topic.partitions[partition].leader if partition < count else None

    def _sent(
        self, client: SocketClient, prepared: _Prepared, place: str
    ) -> tuple[int, int] | None:
        client.wait_for_answers(_ACKNOWLEDGED_WITHIN_S)
        timeout_ms = int(_ACKNOWLEDGED_WITHIN_S * 1_000)
        body = produce_body(self._message.topic, prepared.partition, prepared.batch, timeout_ms)
        try:
            answer = read_answer(client.receive(client.send(ApiKey.PRODUCE, VERSION, body)))
        except (UserError, PeerError) as problem:
            self._doubt(f"no answer from the leader of {place}: {problem}")
            return None
        if answer.error_code is ErrorCode.none:
            return prepared.partition, answer.base_offset
        why = f"{place}: {self._reason(Refused(answer.error_code, answer.message))}"
        if answer.error_code in _MOVING:
            self._doubt(why)
            return None
        if answer.error_code in _APPENDED:
            raise UserError(f"written, but not acknowledged by enough replicas: {why}")
        raise self._failed(why)

    def _doubt(self, problem: str) -> None:
        self._problem = problem
        if not self._is_in_doubt:
            self._is_in_doubt = True
            self._deadline_s = time.monotonic() + _PATIENCE_S

    def _failed(self, why: str) -> UserError:
        if self._is_in_doubt:
            return UserError(
                f"{why}; the message may have been written: look for it before you send it again"
            )
        return UserError(f"not written: {why}")

    def _reason(self, refused: Refused) -> str:
        if refused.code is ErrorCode.cluster_authorization_failed and not refused.detail:
            refused = Refused(refused.code, "the dashboard's user may write to no topic")
        return refusal_text(self._files, refused, PRODUCER, "--topic", self._message.topic)
