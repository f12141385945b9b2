"""Connections to the brokers of one reading: one that does not respond is asked only once."""

from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.dashboard.broker_connection import connect
from cluster.datadir.paths import DataDir
from cluster.model.errors import Refused, UserError

Reply = TypeVar("Reply")


class AskedBrokers:
    """Opens a connection to a broker when it is first asked. A context manager."""

    def __init__(
        self, files: DataDir, addresses: Mapping[int, Address], alive: frozenset[int]
    ) -> None:
        """Only brokers in `alive` are asked, as long as there are some."""
        self.silent: set[int] = set()
        """Live brokers that did not respond."""
        self._files = files
        self._addresses = addresses
        self._alive = [each for each in addresses if each in alive] or list(addresses)
        self._open: dict[int, SocketClient] = {}

    def any(self, ask: Callable[[SocketClient], Reply]) -> Reply:
        """The answer of the first broker that responds. Raises Refused, UserError if none does."""
        problem = UserError("no broker is known")
        for broker in self._alive:
            try:
                return self._ask(broker, ask)
            except UserError as failed:
                problem = failed
        raise problem

    def one(self, broker: int, ask: Callable[[SocketClient], Reply]) -> Reply | None:
        """The answer of a broker; None if it refuses or does not respond."""
        if broker not in self._alive:
            return None
        try:
            return self._ask(broker, ask)
        except (Refused, UserError):
            return None

    def _ask(self, broker: int, ask: Callable[[SocketClient], Reply]) -> Reply:
        if broker in self.silent:
            raise UserError(f"broker {broker} does not respond")
        try:
            if broker not in self._open:
                self._open[broker] = connect(self._files, [self._addresses[broker]])
            return ask(self._open[broker])
        except UserError:
            self.silent.add(broker)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._open.values():
            client.close()
