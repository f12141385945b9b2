"""Asks coordinators about transactions for the page, and ends them."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from cluster.client.admin import Admin
from cluster.client.explanation_requests import explained_on
from cluster.client.refusals import reason_of
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import ListedTransaction, begun_on, listed_on
from cluster.dashboard.broker_connection import (
    CHANGE_TIMEOUT_S,
    CLIENT_ID,
    TIMEOUT_S,
    addresses_of,
    connect,
    security_of,
)
from cluster.dashboard.missing_right import explained_refusals
from cluster.dashboard.sources import Done, Json
from cluster.dashboard.transactions.transactions_view import (
    abort_question,
    chosen,
    terminate_question,
    transactions_view,
)
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.errors import Refused, UserError
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE, read_brokers
from cluster.views.known_holders import KnownId
from cluster.views.transaction_words import abort_command, explain_command, terminate_command
from cluster.views.transactions.ending import (
    abort_at,
    aborted_text,
    beginning_at,
    check_hanging,
    force_terminate,
    known_id,
    terminated_text,
)
from cluster.views.transactions.id_text import details, sentence
from cluster.views.transactions.words import SHOWN


class TransactionReader:
    """Implements `TransactionSource`; each call opens its own connections."""

    def __init__(self, files: DataDir) -> None:
        self._files = files

    @property
    def _program(self) -> str:
        return launcher(self._files.path)

    # -- reading -----------------------------------------------------------------------------------

    def transactions(self, search: str = "") -> Json:
        """The ids of the cluster that contain the text, see `transactions_view`.

        Each broker is asked for those that it coordinates. One that does not answer takes
        `TIMEOUT_S` once; what the others say is shown.
        """
        state, problems = self._state(), []
        alive = {each.broker for each in read_brokers(self._files) if each.state == ALIVE}
        listed: list[ListedTransaction] = []
        with contextlib.ExitStack() as stack:
            clients: dict[int, SocketClient] = {}
            for broker, address in addresses_of(state, alive).items():
                if broker not in alive:
                    problems.append(_silent(broker))
                    continue
                try:
                    client = stack.enter_context(connect(self._files, [address]))
                    listed += listed_on(client, broker)
                    clients[broker] = client
                except Refused as refused:
                    problems.append(f"Broker {broker} does not list its ids: {reason_of(refused)}.")
                except UserError:
                    problems.append(_silent(broker))
            choice = chosen(listed, search, lambda those: _begun(clients, those))
            known: dict[str, KnownId] = {}
            for broker, client in clients.items():
                of_broker = [each for each in choice.shown if each.coordinator == broker]
                try:
                    known |= _explained(client, of_broker)
                except UserError:
                    problems.append(_silent(broker))
        return transactions_view(choice, known, problems, self._program)

    def explain(self, transactional_id: str) -> Json:
        """What `transactions explain --transactional-id` prints: its sentence, the lines beneath,
        and the command.
        """
        with self._admin(TIMEOUT_S) as admin:
            known = self._known(admin, transactional_id)
            address = admin.facts().brokers.get(known.answer.broker)
        at = None if address is None else "{}:{}".format(*address)
        lines = [*details(known, at, SHOWN, self._program)]
        return {
            "sentence": f"{sentence(known)}.",
            "text": "\n".join(lines),
            "command": explain_command(transactional_id, self._program),
        }

    def terminate_preview(self, transactional_id: str) -> Json:
        """What `terminate` will do: `question`, and `command`, which does the same."""
        with self._admin(TIMEOUT_S) as admin:
            found = self._known(admin, transactional_id).answer.transaction
        assert found is not None, "an unknown id was refused"
        return {
            "question": terminate_question(transactional_id, found),
            "command": terminate_command(transactional_id, self._program),
        }

    def abort_preview(self, topic: str, partition: int, offset: int) -> Json:
        """What `abort` will do: `question`, and `command`, which does the same."""
        place = Place(topic, partition)
        with self._admin(TIMEOUT_S) as admin, self._refusals("Alter", "--cluster"):
            end = beginning_at(admin, place, offset)
        producer = f"producer {end.producer_id}, epoch {end.producer_epoch},"
        return {
            "question": abort_question(topic, partition, offset, producer),
            "command": abort_command(place, offset, self._program),
        }

    # -- changes -----------------------------------------------------------------------------------

    def terminate(self, transactional_id: str) -> Done:
        """Abort the transaction of an id, and fence its producer."""
        named = ("--transactional-id", transactional_id)
        with self._admin(CHANGE_TIMEOUT_S) as admin, self._refusals("Write", *named):
            before, _ = force_terminate(admin, transactional_id)
        text = terminated_text(transactional_id, before)
        return Done(f"{text}.", terminate_command(transactional_id, self._program))

    def abort(self, topic: str, partition: int, offset: int) -> Done:
        """Abort a hanging transaction in one partition; one that a coordinator knows is refused."""
        place = Place(topic, partition)
        with self._admin(CHANGE_TIMEOUT_S) as admin, self._refusals("Alter", "--cluster"):
            end = beginning_at(admin, place, offset)
            check_hanging(admin, place, end)
            abort_at(admin, place, end)
        text = aborted_text(place, end)
        command = abort_command(place, offset, self._program)
        return Done(f"{text[0].upper()}{text[1:]}.", command)

    # -- the cluster -------------------------------------------------------------------------------

    def _state(self) -> Mapping[str, Any]:
        return ask_supervisor(self._files.control_socket, {"command": "status"})

    def _admin(self, patience_s: float) -> Admin:
        alive = [each.broker for each in read_brokers(self._files) if each.state == ALIVE]
        addresses = list(addresses_of(self._state(), alive).values())
        return Admin(Servers(addresses, security_of(self._files)), CLIENT_ID, patience_s)

    def _known(self, admin: Admin, transactional_id: str) -> KnownId:
        with self._refusals("Describe", "--transactional-id", transactional_id):
            return known_id(admin, transactional_id)

    def _refusals(self, operation: str, *resources: str) -> AbstractContextManager[None]:
        return explained_refusals(self._files, operation, *resources)


def _silent(broker: int) -> str:
    return f"Broker {broker} does not answer: the ids that it coordinates are not shown."


def _begun(
    clients: Mapping[int, SocketClient], listed: Sequence[ListedTransaction]
) -> dict[str, float]:
    """When open transactions began, as far as coordinators tell it."""
    found: dict[str, float] = {}
    for broker, client in clients.items():
        names = [each.transactional_id for each in listed if each.coordinator == broker]
        with contextlib.suppress(Refused, UserError):
            found |= begun_on(client, names)
    return found


def _explained(client: SocketClient, listed: Sequence[ListedTransaction]) -> dict[str, KnownId]:
    """What a broker knows of ids, without those that have moved or are gone meanwhile."""
    known = {}
    for name in (each.transactional_id for each in listed):
        with contextlib.suppress(Refused):
            known[name] = KnownId(name, explained_on(client, name))
    return known
