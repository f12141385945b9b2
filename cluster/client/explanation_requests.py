"""Asks brokers to explain transactions: requests of our own (`transactions explain`)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from cluster.client.admin import Admin, Outcome
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.coordinator.transactions import explanation, held_back, hidden_producers
from cluster.coordinator.transactions.explanation import ExplainTransactionAnswer
from cluster.coordinator.transactions.held_back import (
    ExplainPartitionsAnswer,
    HeldPartition,
    PartitionQuestion,
)
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.protocol.api import OwnApiKey
from cluster.protocol.peer.packed_body import PackedBody

_PURPOSE: Final = "explain transactions"

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


def explain_transaction(admin: Admin, transactional_id: str) -> ExplainTransactionAnswer:
    """What the coordinator of a transactional id knows of it.

    Raises Refused (transactional_id_not_found), and UserError where nobody answers.
    """

    return admin.transaction_coordinator(
        transactional_id, lambda client, _at: explained_on(client, transactional_id)
    )


def explained_on(client: SocketClient, transactional_id: str) -> ExplainTransactionAnswer:
    """The same of the connected broker. Raises Refused, also if another one coordinates it."""
    answer = _call(
        client,
        OwnApiKey.EXPLAIN_TRANSACTION,
        (explanation.QUESTION, transactional_id),
        explanation.ANSWER,
    )
    if answer.code is not ErrorCode.none:
        raise Refused(answer.code)
    return answer


class ExplainedPartitions:
    """The answers of all leaders that were asked."""

    def __init__(self) -> None:
        self.held: dict[Place, HeldPartition] = {}
        """Partitions whose last stable offset is held back."""
        self.leaders: dict[Place, int] = {}
        """The broker that leads each of these partitions."""
        self.refused: dict[Place, ErrorCode] = {}
        """Partitions that do not exist, or may not be read."""
        self.examined = 0
        self.open_transactions = 0
        """In all examined partitions together; one counts in each of its partitions."""
        self.silent: list[str] = []
        """Why brokers did not answer."""

    def add(self, answer: ExplainPartitionsAnswer) -> None:
        """Take the answer of one broker."""
        self.examined += answer.examined
        self.open_transactions += answer.open_transactions
        for each in answer.held:
            place = Place(each.topic, each.partition)
            self.held[place] = each
            self.leaders[place] = answer.broker


def explain_partitions(admin: Admin, places: Iterable[Place]) -> ExplainedPartitions:
    """What holds the last stable offsets of partitions back. Raises Refused, UserError."""
    found = ExplainedPartitions()

    def ask(client: SocketClient, places: Sequence[Place]) -> Mapping[Place, Outcome]:
        question = tuple(PartitionQuestion(*place) for place in places)
        answer = _ask_leader(client, question)
        found.add(answer)
        codes = {Place(each.topic, each.partition): each.code for each in answer.unknown}
        return {place: Outcome(codes.get(place, ErrorCode.none)) for place in places}

    # `leaders` repeats a request that fails; a broker of Kafka would never answer.
    admin.any_broker(lambda client: _ask_leader(client, (PartitionQuestion("", 0),)))
    outcomes = admin.leaders(places, ask)
    found.refused = {place: each.code for place, each in outcomes.items() if each.code}
    return found


def explain_all_partitions(
    admin: Admin, brokers: Iterable[int] | None = None
) -> ExplainedPartitions:
    """What holds any last stable offset back that the client may see; with `brokers`, in the
    partitions that these lead. Raises UserError.
    """
    found = ExplainedPartitions()
    for broker in sorted(admin.facts().brokers if brokers is None else brokers):
        try:
            found.add(admin.repeated(partial(admin.broker, broker, _ask_about_all)))
        except (Refused, UserError) as problem:
            found.silent.append(f"broker {broker}: {problem}")
    return found


def hidden_among(admin: Admin, producer_ids: Collection[int]) -> set[int]:
    """Those producer ids whose transactional ids the client may not describe.

    Raises Refused, and UserError where a broker does not answer, as one of Kafka.
    """

    def ask(client: SocketClient) -> tuple[int, ...]:
        answer = _call(
            client,
            OwnApiKey.LIST_HIDDEN_PRODUCERS,
            (hidden_producers.QUESTION, tuple(producer_ids)),
            hidden_producers.ANSWER,
            "tell whether a user may not see transactional ids",
        )
        if answer.code is not ErrorCode.none:
            raise Refused(answer.code)
        return answer.producer_ids

    return {each for broker in sorted(admin.facts().brokers) for each in admin.broker(broker, ask)}


def _ask_about_all(client: SocketClient) -> ExplainPartitionsAnswer:
    return _ask_leader(client, ())


def _ask_leader(
    client: SocketClient, question: tuple[PartitionQuestion, ...]
) -> ExplainPartitionsAnswer:
    return _call(
        client,
        OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS,
        (held_back.QUESTION, question),
        held_back.ANSWER,
    )


def _call(
    client: SocketClient,
    key: OwnApiKey,
    question: tuple[PackedBody[QuestionT], QuestionT],
    answers: PackedBody[AnswerT],
    purpose: str = _PURPOSE,
) -> AnswerT:
    form, content = question
    body = client.call_own(key, form.pack(content), purpose)
    try:
        return answers.read(body)
    except PeerError as error:
        raise UserError(f"the broker at {client.address} answers wrongly: {error}") from error
