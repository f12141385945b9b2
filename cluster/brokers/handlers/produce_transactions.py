"""The transactions of Produce requests: a leader has them verified before their first batch.

KIP-890; Kafka: `ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.replication.partition import Partition
from cluster.brokers.transactions.check_errors import ClientAge, produce_error
from cluster.brokers.transactions.transaction_checks import TransactionCheck
from cluster.config.broker import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from cluster.coordinator.transactions.requests import ProducerIdentity
from cluster.log.producer_state import Verification
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.protocol.produce_codec import ProduceRequest
from cluster.records.batch import HEADER_BYTES

_NOT_VERIFIED: Final = "the partition is not part of the transaction, or that cannot be verified"
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12
_PRODUCER: Final = struct.Struct(">qhi")
"""Producer id, epoch and base sequence in the header of a batch."""
_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_POSITION: Final = 43
_ATTRIBUTES_LOW_BYTE: Final = 22
_TRANSACTIONAL_BIT: Final = 0x10

Verified = dict[TopicPartition, Verification | ErrorCode]
"""By partition: the guard of the append that begins a transaction there, or why it is refused."""


class NotVerified(Exception):
    """A batch begins a transaction in the partition, which has to be verified first."""


def has_several_producers(request: ProduceRequest) -> bool:
    """Whether the transactional batches of a request are of more than one producer or epoch.

    Its transactional id has only one; Kafka refuses such a request as a whole.
    """
    first = None
    for _, _, partitions in request.topics:
        for _, records in partitions:
            if (
                records is None
                or len(records) < HEADER_BYTES
                or not records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
            ):
                continue
            producer_id, epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
            if producer_id < 0:
                continue
            if first is None:
                first = producer_id, epoch
            elif first != (producer_id, epoch):
                return True
    return False


def check_begun(
    partition: Partition, records: memoryview, context: RequestContext, services: DataServices
) -> bool:
    """Whether a batch begins a transaction in the partition.

    Raises NotVerified if it does and the coordinator has to be asked.
    """
    begins = begins_transaction(partition, records)
    if begins and _must_verify(context.version, services):
        raise NotVerified
    return begins


def begins_transaction(partition: Partition, records: memoryview) -> bool:
    """Whether the leader does not know the transaction of a batch yet."""
    if len(records) < HEADER_BYTES or partition.leader is None:
        return False  # the append refuses it
    if not records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT:
        return False
    producer_id, epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return producer_id >= 0 and not partition.log.producers.has_open_transaction(producer_id, epoch)


def note_writer(
    records: memoryview | bytes,
    transactional_id: str | None,
    context: RequestContext,
    services: DataServices,
) -> None:
    """Remember who began a transaction with a batch that was appended."""
    (producer_id,) = _PRODUCER_ID.unpack_from(records, _PRODUCER_POSITION)
    services.transaction_writers.note(
        producer_id, transactional_id, context.client_id, context.host
    )


def _must_verify(version: int, services: DataServices) -> bool:
    return version >= _FIRST_THAT_ADDS or bool(
        services.settings[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
    )


def _begins(
    partition: Partition, records: memoryview, version: int, services: DataServices
) -> bool:
    return begins_transaction(partition, records) and _must_verify(version, services)


def verification_of(
    verified: Verified,
    partition: Partition,
    records: bytes,
    version: int,
    services: DataServices,
) -> Verification | None:
    """The guard of a batch, None if the leader knows its transaction. Raises Refused."""
    found = verified.get(partition.id)
    if isinstance(found, ErrorCode):
        raise Refused(found, _NOT_VERIFIED)
    if found is None and _begins(partition, memoryview(records), version, services):
        # It had a transaction when the request came, which has ended while other partitions of the
        # request were verified. The batch would begin one that nobody ends.
        raise Refused(ErrorCode.invalid_txn_state, "the transaction has ended meanwhile")
    return found


def verify(
    batches: Mapping[TopicPartition, memoryview],
    transactional_id: str | None,
    version: int,
    services: DataServices,
    on_verified: Callable[[Verified], None],
) -> None:
    """Ask the coordinator of the transaction about all partitions in which batches begin it.

    `on_verified` is called once, perhaps at once.
    """
    age = _age_of(version)
    is_added = age is ClientAge.ADDS_BY_WRITING
    verified: Verified = {}
    producers: dict[ProducerIdentity, set[TopicPartition]] = defaultdict(set)
    for place, records in batches.items():
        partition = services.partitions.find(place)
        if partition is None or not _begins(partition, records, version, services):
            continue
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
        try:
            verified[place] = partition.log.producers.begin_verification(
                producer_id, epoch, sequence, services.clock.wall_ms(), is_added=is_added
            )
        except Refused as refused:
            verified[place] = refused.code
        else:
            producers[ProducerIdentity(producer_id, epoch)].add(place)
    left = len(producers)
    if not left or transactional_id is None:
        on_verified(verified)
        return

    def on_codes(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        nonlocal left
        for place, code in codes.items():
            if code is not ErrorCode.none:
                verified[place] = produce_error(code, age)
        left -= 1
        if not left:
            on_verified(verified)

    for producer, places in producers.items():
        check = TransactionCheck(transactional_id, producer, frozenset(places), is_added)
        services.checks.check(check, on_codes)


def _age_of(version: int) -> ClientAge:
    if version >= _FIRST_THAT_ADDS:
        return ClientAge.ADDS_BY_WRITING
    return ClientAge.KNOWS_ABORTABLE if version >= _FIRST_WITH_ABORTABLE else ClientAge.BEFORE
