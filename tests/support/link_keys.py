"""Processes that know each other's keys, as brokers do through the registry."""

from collections.abc import Callable, Collection

from cluster.runtime.zmq_link import ZmqContext


class Acquaintance:
    """Contexts whose routers take connections of one another."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()

    def context(self) -> ZmqContext:
        """A new one, as of a process that has just been started."""
        made = ZmqContext(self._find_keys)
        self.keys.add(made.public_key)
        return made

    def _find_keys(self, on_found: Callable[[Collection[bytes] | None], None]) -> None:
        on_found(self.keys)
