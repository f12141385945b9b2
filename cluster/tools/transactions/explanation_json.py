"""What `transactions explain --json` prints: the same facts for scripts. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from cluster.client.explanation_requests import ExplainedPartitions
from cluster.coordinator.transactions.explanation import ExplainedStep, ExplainedTransaction
from cluster.coordinator.transactions.held_back import OpenTransaction
from cluster.coordinator.transactions.history import ProducerStart, Refusal
from cluster.coordinator.transactions.requests import NOBODY, ClientName, ProducerIdentity
from cluster.coordinator.transactions.transaction import NOT_STARTED
from cluster.model.ids import TopicPartition
from cluster.views.holder_words import ending_command
from cluster.views.known_holders import Holder, KnownId
from cluster.views.transactions import holder_text, id_text


def id_object(known: KnownId, last: int) -> dict[str, Any]:
    """Times are milliseconds since the epoch; what ends in `_ms` besides is a duration."""
    found = known.answer.transaction
    assert found is not None, "only ids that a coordinator knows are explained"
    is_open = found.state.name == "ONGOING"
    return {
        "transactional_id": known.transactional_id,
        "sentence": id_text.sentence(known),
        "state": found.state.label,
        "coordinator": known.answer.broker,
        "time": known.answer.now_wall_ms,
        "known_since": found.remembers_since_wall_ms,
        **_producer(found.producer),
        "client": _client(found.client),
        "timeout_ms": found.timeout_ms,
        "timeout_check_interval_ms": found.timeout_check_interval_ms,
        "started": None if found.start_wall_ms == NOT_STARTED else found.start_wall_ms,
        "times_out": found.start_wall_ms + found.timeout_ms if is_open else None,
        "last_update": found.last_update_wall_ms,
        "partitions": _places(found.partitions),
        "partitions_left_off": found.partitions_left_off,
        "missing_markers": _places(found.unmarked),
        "missing_markers_left_off": found.unmarked_left_off,
        "storing": None if found.storing is None else found.storing.label,
        "transactions": [_transaction(each) for each in found.transactions[-last:]],
        "transactions_left_off": found.transactions_left_off,
        "producer_starts": [_start(each) for each in found.starts],
        "refusals": [_refusal(each) for each in found.refusals],
    }


def partitions_object(told: ExplainedPartitions, holders: Sequence[Holder], now_ms: int) -> Any:
    """What holds last stable offsets back."""
    return {
        "time": now_ms,
        "examined_partitions": told.examined,
        "open_transactions": told.open_transactions,
        "held_back": [_holder(each, now_ms) for each in holders],
        "brokers_without_answer": told.silent,
        "not_explained": [
            {**place._asdict(), "error": code.name.upper()} for place, code in told.refused.items()
        ],
    }


def _holder(holder: Holder, now_ms: int) -> dict[str, Any]:
    partition, known = holder.partition, holder.known
    ended = partition.uncommitted
    return {
        **holder.place._asdict(),
        "sentence": holder_text.sentence(holder, now_ms),
        "verdict": holder.verdict.value,
        "leader": holder.leader,
        "last_stable_offset": partition.last_stable_offset,
        "high_watermark": partition.high_watermark,
        "log_end_offset": partition.log_end_offset,
        "waiting_records": partition.waiting_records,
        "waiting_bytes": None if partition.waiting_bytes < 0 else partition.waiting_bytes,
        "transactional_id": None if known is None else known.transactional_id,
        "transaction": None if known is None else id_object(known, 1),
        "command": ending_command(holder),
        "problem": holder.problem or None,
        "open_transactions": [_open(each) for each in partition.open],
        "open_transactions_left_off": partition.open_left_off,
        "uncommitted_marker": None if ended is None else ended.marker_offset,
        "is_index_damaged": partition.is_index_damaged,
    }


def _open(transaction: OpenTransaction) -> dict[str, Any]:
    writer = transaction.writer
    first_ms = transaction.first_timestamp_ms
    return {
        **_producer(transaction.producer),
        "coordinator_epoch": transaction.coordinator_epoch,
        "first_offset": transaction.first_offset,
        "since": None if first_ms < 0 else first_ms,
        "last_record": transaction.last_timestamp_ms,
        "written_with_transactional_id": None if writer is None else writer.transactional_id,
        "written_by": None if writer is None else _client(writer.client),
    }


def _transaction(transaction: ExplainedTransaction) -> dict[str, Any]:
    return {
        **_producer(transaction.producer),
        "began": transaction.began_wall_ms,
        "outcome": id_text.outcome(transaction),
        "is_complete": transaction.is_complete,
        "is_partial": transaction.is_partial,
        "timeout_ms": transaction.timeout_ms,
        "steps": [_step(each) for each in transaction.steps],
        "steps_left_off": transaction.steps_left_off,
    }


def _step(step: ExplainedStep) -> dict[str, Any]:
    return {
        "kind": step.kind.name.lower(),
        "after_ms": step.after_ms,
        "stored_in_ms": step.took_ms,
        "because": step.asker.name.lower(),
        "client": _client(step.client),
        "group": step.group,
        "partitions": _places(step.partitions),
        "partitions_left_off": step.partitions_left_off,
    }


def _start(start: ProducerStart) -> dict[str, Any]:
    return {
        "time": start.wall_ms,
        **_producer(start.producer),
        "client": _client(start.client),
        "fenced": None if start.fenced == NOBODY else _producer(start.fenced),
        "fenced_client": _client(start.fenced_client),
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "first": refusal.first_wall_ms,
        "last": refusal.last_wall_ms,
        "count": refusal.count,
        "request": refusal.request,
        **_producer(refusal.producer),
        "client": _client(refusal.client),
    }


def _producer(producer: ProducerIdentity) -> dict[str, int]:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}


def _client(client: ClientName | None) -> dict[str, str] | None:
    return None if client is None else client._asdict()


def _places(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [each._asdict() for each in partitions]
