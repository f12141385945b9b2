"""Asks every broker what it knows of the rebalances of a group."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cluster.client.cluster_requests import broker_addresses
from cluster.client.group_requests import explain_group
from cluster.client.security import Address, Servers
from cluster.client.socket_client import SocketClient
from cluster.client.timeouts import POLL_S
from cluster.coordinator.groups.history.explanation import ExplainAnswer
from cluster.model.errors import ErrorCode, UserError
from cluster.model.printable import one_line
from cluster.views.groups.known_rebalances import KnownGroup, merged
from cluster.views.groups.outages import outages

REBALANCES_SHOWN: Final = 5
"""How many rebalances are printed if nobody says how many."""
_ANSWER_TIMEOUT_S: Final = 3.0
_PATIENCE_S: Final = 10.0
"""How long a group may have no coordinator, or one that is loading, before that is said."""
_TRANSIENT: Final = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
_Answers = tuple[dict[int, ExplainAnswer], list[str]]


class UnknownGroup(UserError):
    """No broker tells of the group; the text is the reason."""


def find_rebalances(
    servers: Servers,
    client_id: str,
    group_id: str,
    events: Iterable[Mapping[str, Any]] = (),
    patience_s: float = _PATIENCE_S,
) -> KnownGroup:
    """What all brokers know of a group. Raises UnknownGroup, and UserError if nobody answers.

    `events` are those of the supervisor.
    """
    with SocketClient.connect(servers, client_id, _ANSWER_TIMEOUT_S) as client:
        brokers = broker_addresses(client)
    answers, silent = _ask_until_coordinated(
        lambda: _ask_all(servers, brokers, client_id, group_id), patience_s
    )
    known_outages = outages(events)
    addresses = {broker: f"{host}:{port}" for broker, (host, port) in brokers.items()}
    known = merged(group_id, answers, addresses, silent, known_outages)
    if known is None:
        codes = {answer.code for answer in answers.values()}
        away = [str(each) for each in known_outages if each.until_ms is None]
        raise UnknownGroup(why_nothing(group_id, codes, silent, away))
    return known


def _ask_all(
    servers: Servers, brokers: Mapping[int, Address], client_id: str, group_id: str
) -> _Answers:
    """Answers by broker, and lines about those that do not answer."""
    answers: dict[int, ExplainAnswer] = {}
    silent = []
    for broker, address in sorted(brokers.items()):
        try:
            with SocketClient.connect(
                servers.only(address), client_id, _ANSWER_TIMEOUT_S
            ) as client:
                answers[broker] = explain_group(client, group_id)
        except UserError as problem:
            silent.append(f"broker {broker}: {problem}")
    return answers, silent


def _ask_until_coordinated(ask: Callable[[], _Answers], patience_s: float) -> _Answers:
    """A coordinator that moves or loads is waited for."""
    deadline = time.monotonic() + patience_s
    while True:
        answers, silent = ask()
        codes = {answer.code for answer in answers.values()}
        is_settled = not codes or not codes.issubset(_TRANSIENT)
        if is_settled or silent or time.monotonic() > deadline:
            return answers, silent
        time.sleep(POLL_S)


def why_nothing(group_id: str, codes: set[ErrorCode], silent: list[str], away: list[str]) -> str:
    """Why no broker tells of a group. `away`: brokers that are known not to answer."""
    name = one_line(group_id)
    if ErrorCode.group_id_not_found in codes:
        return f"Consumer group '{name}' does not exist."
    if ErrorCode.coordinator_load_in_progress in codes:
        return f"The coordinator of group '{name}' is still loading it: try again."
    if away or silent:
        return (
            f"The coordinator of group '{name}' does not answer at present"
            f" ({'; '.join(away or map(one_line, silent))}): try again when it is back, or when"
            " another broker leads the group's partition of __consumer_offsets."
        )
    return (
        f"No broker coordinates group '{name}' at present: no group has been used yet, or its"
        " partition of __consumer_offsets has no leader."
    )
