"""A partition that a transaction holds back, as its leader and its coordinator describe it."""

from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.explanation import (
    ExplainTransactionAnswer,
    TransactionExplanation,
)
from cluster.coordinator.transactions.held_back import HeldPartition, OpenTransaction
from cluster.coordinator.transactions.requests import ClientName, ProducerIdentity
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.views.known_holders import Holder, KnownId, holder_of

NOW_MS = 1_700_000_100_000
PLACE = Place("orders", 0)
PRODUCER = ProducerIdentity(2000, 4)
BILLING = ClientName("billing", "/10.0.0.7")
OPEN = OpenTransaction(PRODUCER, -1, 10, NOW_MS - 12_300, NOW_MS - 5_000, None)
HELD = HeldPartition("orders", 0, 10, 1_234, 1_240, 1_224, 98_304, (OPEN,), 0, None, False)
EXPLAINED = TransactionExplanation(
    state=TransactionState.ONGOING,
    producer=PRODUCER,
    client=BILLING,
    timeout_ms=60_000,
    timeout_check_interval_ms=10_000,
    start_wall_ms=NOW_MS - 12_300,
    last_update_wall_ms=NOW_MS - 2_000,
    partitions=(TopicPartition("orders", 0),),
    partitions_left_off=0,
    unmarked=(),
    unmarked_left_off=0,
    storing=None,
    storing_since_wall_ms=-1,
    transactions=(),
    transactions_left_off=0,
    starts=(),
    refusals=(),
    remembers_since_wall_ms=NOW_MS - 100_000,
)


def known(explained: TransactionExplanation | None = EXPLAINED) -> KnownId:
    answer = ExplainTransactionAnswer(ErrorCode.none, 2, NOW_MS, explained)
    return KnownId("payments-1", answer)


def holder(
    partition: HeldPartition = HELD, found: KnownId | None = None, problem: str = ""
) -> Holder:
    return holder_of(PLACE, 1, partition, lambda _producer_id: (found, problem))
