"""The registry of a simulation: sessions that are cut off, expire, or lose an answer."""

from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.registry.client.kazoo_store import kazoo_store
from tests.simulation.world import Node, World
from tests.support.fake_registry import FakeClient, FakeTree, Watch

REGISTRY = "registry"
SESSION_TIMEOUT_MS = 1_500


class SimulatedSession:
    """Stands in for `KazooSession`, with its client's connection to the registry.

    Calls are carried out one after another, each with a delay for request and reply. While the
    broker is cut off, it receives nothing; when reconnected, it learns if its session has expired.
    """

    def __init__(self, world: World, node: Node, tree: FakeTree) -> None:
        self._world = world
        self._node = node
        self.client = FakeClient(tree)
        client: Any = self.client
        self.store = kazoo_store(client, self._watch)
        self._on_lost: Callable[[], None] = lambda: None
        self._on_begun: Callable[[], None] = lambda: None
        self._calls: deque[Callable[[], None]] = deque()
        self._is_calling = False
        self._told: deque[Callable[[], None]] = deque()
        self.answers_to_lose = 0
        self._cut_count = 0

    # What KazooSession offers

    def follow_session(self, on_lost: Callable[[], None], on_begun: Callable[[], None]) -> None:
        self._on_lost, self._on_begun = on_lost, on_begun

    def call(self, call: Callable[[Any], Any]) -> Any:
        return call(self.store)

    def submit(
        self,
        call: Callable[[Any], Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        def run() -> None:
            try:
                result = call(self.store)
                if self.answers_to_lose:
                    self.answers_to_lose -= 1
                    raise ConnectionLoss
            except Exception as error:  # noqa: BLE001 - as the real one
                failure = error
                self._tell(lambda: on_failed(failure))
            else:
                self._tell(lambda: on_done(result))

        self._calls.append(run)
        self._call_next()

    def _watch(self, callback: Callable[[], None]) -> Watch:
        def on_event(_event: WatchedEvent) -> None:
            self._tell(callback)

        return on_event

    # What happens to it

    @property
    def is_cut_off(self) -> bool:
        return self._world.is_apart(self._node.broker, REGISTRY)

    def cut_off(self) -> None:
        """The broker does not reach the registry; its session ends if that lasts."""
        self._world.separate(self._node.broker, REGISTRY)
        self._cut_count += 1
        cut = self._cut_count
        self._world.after(SESSION_TIMEOUT_MS, lambda: self._expire_if_still_cut(cut))

    def _expire_if_still_cut(self, cut: int) -> None:
        if cut == self._cut_count and self.is_cut_off and self._node.is_alive:
            self._world.note(f"session of broker {self._node.broker} expires")
            self.client.expire()

    def reach_again(self) -> None:
        self._world.join(self._node.broker, REGISTRY)
        if self._node.is_alive and self.client.is_expired:
            self.client.begin_again()
            self._told.clear()  # watches end with their session
            self._post(lambda: self._on_lost())
            self._post(lambda: self._on_begun())
        else:
            told, self._told = self._told, deque()
            for callback in told:
                self._post(callback)
        self._is_calling = False
        self._call_next()

    def _call_next(self) -> None:
        if self._is_calling or not self._calls or self.is_cut_off or not self._node.is_alive:
            return
        self._is_calling = True
        self._world.after(self._world.delay_ms(), self._carry_out)

    def _carry_out(self) -> None:
        if not self._is_calling or self.is_cut_off or not self._node.is_alive:
            return
        self._is_calling = False
        if self._calls:
            self._calls.popleft()()
        self._call_next()

    def _tell(self, callback: Callable[[], None]) -> None:
        if self.is_cut_off:
            self._told.append(callback)
        else:
            self._post(callback)

    def _post(self, callback: Callable[[], None]) -> None:
        self._world.after(0, lambda: self._node.run(callback))
