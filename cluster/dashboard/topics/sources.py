"""What the page shows of topics, as an interface for its routes, and a running cluster for it."""

from collections.abc import Callable
from typing import Protocol

from cluster.dashboard.broker_connection import addresses_of
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.broker_figures import Readings
from cluster.dashboard.topics.new_message import NewMessage
from cluster.dashboard.topics.produce_command import produce_command
from cluster.dashboard.topics.reader import TopicReader
from cluster.dashboard.topics.writer import write_message
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE
from cluster.views.group_lags import group_lags


class TopicSource(Protocol):
    """Blocking calls, made on threads. Each raises UserError with one line for the user."""

    def topics(self) -> Json:
        """Every topic, see `topic_list`."""
        ...

    def topic(self, name: str) -> Json:
        """One topic, see `topic_page`."""
        ...

    def produce(self, message: NewMessage) -> Json:
        """Write a message; returns its `partition` and `offset`."""
        ...

    def produce_command(self, message: NewMessage) -> Json:
        """`command`: the command line that does the same; else `reason`, why there is none."""
        ...


class ClusterTopics:
    """Implements `TopicSource`; calls of one method come one at a time."""

    def __init__(self, files: DataDir, readings: Callable[[], Readings]) -> None:
        """`readings` reads the stats files."""
        self._files = files
        self._readings = readings
        self._clock = SystemClock()
        self._list = TopicReader(files)
        self._page = TopicReader(files)

    def topics(self) -> Json:
        return self._list.all(self._state(), self._readings(), self._clock.monotonic_ms())

    def topic(self, name: str) -> Json:
        readings = self._readings()
        groups = group_lags([broker for broker, _ in readings], self._clock.wall_ms())
        return self._page.one(name, self._state(), readings, groups)

    def produce(self, message: NewMessage) -> Json:
        alive = [each.broker for each, _ in self._readings() if each.state == ALIVE]
        return write_message(self._files, addresses_of(self._state(), alive), message)

    def produce_command(self, message: NewMessage) -> Json:
        return produce_command(launcher(self._files.path), message)

    def _state(self) -> Json:
        return ask_supervisor(self._files.control_socket, {"command": "status"})
