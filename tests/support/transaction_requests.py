"""Requests about transactions in any version, for a broker that coordinates transactional ids and
groups, and leads topics.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import request

ID = "payments-1"
FIRST_ID = 5_000
"""The first producer id of the stage's block."""
Producer = tuple[int, int]


def coordinate(stage: HandlerStage, *topics: str, state_leader: int = BROKER) -> None:
    """Broker 1 leads both internal topics, each with one partition, and topics with two; unless
    another one leads `__transaction_state`."""
    led = a_partition([BROKER])
    state = led if state_leader == BROKER else a_partition([state_leader, BROKER])
    stage.update(
        a_topic(TRANSACTION_STATE_TOPIC, state),
        a_topic(CONSUMER_OFFSETS_TOPIC, led),
        *(a_topic(name, led, led) for name in topics),
    )
    for _ in range(3):
        stage.turn()


def give_producer_ids(stage: HandlerStage, first: int = FIRST_ID) -> None:
    """Answer the waiting requests for blocks of producer ids."""
    blocks, stage.producer_id_blocks[:] = list(stage.producer_id_blocks), []
    for on_done, _ in blocks:
        on_done(range(first, first + 1_000))


def init_producer_id(
    transactional_id: str | None = ID,
    version: int = 5,
    *,
    timeout_ms: int = 60_000,
    producer: Producer = (-1, -1),
) -> Any:
    return request(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )


def add_partitions(
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    version: int = 3,
    *,
    transactional_id: str = ID,
    verify_only: bool = False,
) -> Any:
    """A client sends up to version 3, a broker from version 4 on."""
    asked = [{"name": name, "partitions": list(numbers)} for name, numbers in topics.items()]
    return request(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=asked,
        transactions=[
            {
                "transactional_id": transactional_id,
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "verify_only": verify_only,
                "topics": asked,
            }
        ],
    )


def added_in(answer: Any) -> dict[tuple[str, int], int]:
    """The code of each partition."""
    topics = getattr(answer, "results_by_topic_v3_and_below", None)
    if not topics:
        topics = [t for each in answer.results_by_transaction for t in each.topic_results]
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topics
        for each in topic.results_by_partition
    }


def add_offsets(
    producer: Producer, group: str = "g", version: int = 4, transactional_id: str = ID
) -> Any:
    return request(
        ApiKey.ADD_OFFSETS_TO_TXN,
        version,
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )


def end_txn(
    producer: Producer, *, is_commit: bool = True, version: int = 5, transactional_id: str = ID
) -> Any:
    return request(
        ApiKey.END_TXN,
        version,
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=is_commit,
    )


def txn_offset_commit(
    producer: Producer,
    offsets: Mapping[tuple[str, int], int],
    version: int = 5,
    *,
    group: str = "g",
    transactional_id: str = ID,
    generation: int = -1,
    member: str = "",
) -> Any:
    return request(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=generation,
        member_id=member,
        group_instance_id=None,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": None,
                    }
                ],
            }
            for (topic, partition), offset in offsets.items()
        ],
    )


def write_txn_markers(
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    *,
    is_commit: bool = False,
    coordinator_epoch: int = 0,
) -> Any:
    return request(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        markers=[
            {
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "transaction_result": is_commit,
                "topics": [
                    {"name": name, "partition_indexes": list(numbers)}
                    for name, numbers in topics.items()
                ],
                "coordinator_epoch": coordinator_epoch,
            }
        ],
    )


def a_transactional_batch(producer: Producer, sequence: int = 0, count: int = 1) -> bytes:
    records = [NewRecord(b"value", None, WALL_MS)] * count
    identity = ProducerIdentity(*producer, sequence)
    return bytes(build_batch(records, producer=identity, is_transactional=True))
