"""Asks brokers for the metrics that clients have pushed to them: a request of our own."""

from collections.abc import Iterable
from functools import partial

from cluster.client.admin import Admin
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.protocol.api import OwnApiKey
from cluster.protocol.peer.pushed_metrics import (
    ANSWER,
    QUESTION,
    PushedMetricsAnswer,
    PushedMetricsQuestion,
)


def pushed_metrics(
    admin: Admin, question: PushedMetricsQuestion, brokers: Iterable[int] | None = None
) -> tuple[list[PushedMetricsAnswer], list[str]]:
    """The answers of these brokers, or of all, and why others did not answer.

    Raises Refused if the user may not see them.
    """
    answers: list[PushedMetricsAnswer] = []
    silent: list[str] = []
    for broker in sorted(admin.facts().brokers if brokers is None else brokers):
        try:
            answers.append(admin.broker(broker, partial(_ask, question)))
        except Refused as refused:
            if refused.code is ErrorCode.cluster_authorization_failed:
                raise
            silent.append(f"broker {broker}: {refused}")
        except UserError as problem:
            silent.append(f"broker {broker}: {problem}")
    return answers, silent


def _ask(question: PushedMetricsQuestion, client: SocketClient) -> PushedMetricsAnswer:
    body = client.call_own(
        OwnApiKey.LIST_PUSHED_METRICS, QUESTION.pack(question), "show the metrics of clients"
    )
    try:
        answer = ANSWER.read(body)
    except PeerError as error:
        raise UserError(f"the broker at {client.address} answers wrongly: {error}") from error
    if answer.code is not ErrorCode.none:
        raise Refused(answer.code)
    return answer
