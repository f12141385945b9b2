"""Asks a broker for users, quotas and access rules."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from cluster.client.acl_requests import describe_acls
from cluster.client.config_requests import described
from cluster.client.quota_requests import describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.client.user_requests import describe_users
from cluster.config.broker import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_CLASS_NAME,
    SUPER_USERS,
)
from cluster.dashboard.broker_connection import addresses_of, connect
from cluster.dashboard.missing_right import explained_refusals
from cluster.dashboard.sources import Json
from cluster.dashboard.users.access_view import AccessFacts, access_view
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.acls import AclFilter
from cluster.model.errors import UserError
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE, read_brokers

_SETTINGS: Final = (AUTHORIZER_CLASS_NAME, SUPER_USERS, ALLOW_EVERYONE_IF_NO_ACL_FOUND)


class AccessReader:
    """Implements `AccessSource`."""

    def __init__(self, files: DataDir) -> None:
        self._files = files

    def read(self) -> AccessFacts:
        """Read it of the first broker that answers. Raises UserError if none does."""
        facts = AccessFacts()
        with self._broker() as (broker, client):
            asked: list[tuple[Callable[[], None], str]] = [
                (lambda: _add_settings(facts, client, broker), "DescribeConfigs"),
                (lambda: _add_users(facts, client), "Describe"),
                (lambda: _add_quotas(facts, client), "DescribeConfigs"),
                (lambda: _add_rules(facts, client), "Describe"),
            ]
            for ask, operation in asked:
                with self._refusals(facts, operation):
                    ask()
        return facts

    def view(self, facts: AccessFacts, principal: str, resource: str) -> Json:
        """The part of a reading that these texts select, see `access_view`."""
        return access_view(facts, principal, resource, launcher(self._files.path))

    @contextlib.contextmanager
    def _broker(self) -> Iterator[tuple[int, SocketClient]]:
        alive = [each.broker for each in read_brokers(self._files) if each.state == ALIVE]
        state = ask_supervisor(self._files.control_socket, {"command": "status"})
        problem = UserError("cannot connect: no broker is known")
        for broker, address in addresses_of(state, alive).items():
            try:
                client = connect(self._files, [address])
            except UserError as failed:
                problem = failed
                continue
            with client:
                yield broker, client
            return
        raise problem

    @contextlib.contextmanager
    def _refusals(self, facts: AccessFacts, operation: str) -> Iterator[None]:
        """Notes what the broker refuses to say."""
        try:
            with explained_refusals(self._files, operation, "--cluster"):
                yield
        except UserError as refused:
            facts.problems.append(str(refused))


def _add_settings(facts: AccessFacts, client: SocketClient, broker: int) -> None:
    names = [each.name for each in _SETTINGS]
    texts = {
        each.name: each.value or "" for each in described(client, "brokers", str(broker), names)
    }
    facts.authorizer = texts.get(AUTHORIZER_CLASS_NAME.name) or None
    facts.super_users = sorted(SUPER_USERS.parse(SUPER_USERS.name, texts.get(SUPER_USERS.name, "")))
    facts.allows_without_rules = texts.get(ALLOW_EVERYONE_IF_NO_ACL_FOUND.name) == "true"


def _add_users(facts: AccessFacts, client: SocketClient) -> None:
    facts.users = describe_users(client)


def _add_quotas(facts: AccessFacts, client: SocketClient) -> None:
    facts.quotas = describe_quotas(client).keys()


def _add_rules(facts: AccessFacts, client: SocketClient) -> None:
    if facts.authorizer is not None or facts.problems:
        facts.rules = sorted(describe_acls(client, AclFilter()))
