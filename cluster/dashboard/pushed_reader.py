"""Asks brokers for the metrics that clients pushed to them, if their stats name such clients."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.client.admin import Admin
from cluster.client.pushed_metrics_requests import pushed_metrics
from cluster.client.security import Servers
from cluster.dashboard.broker_connection import CLIENT_ID, TIMEOUT_S, addresses_of, security_of
from cluster.datadir.paths import DataDir
from cluster.metrics.broker_metrics import BY_KEY
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused, UserError
from cluster.protocol.peer.pushed_metrics import (
    VALUES_MAX,
    PushedMetricsAnswer,
    PushedMetricsQuestion,
)
from cluster.runtime.clock import SystemClock
from cluster.views.client_states import ALIVE, BrokerStats

log = logging.getLogger(__name__)

_FRESH_MS: Final = 2_000
"""An answer is used for so long by whoever asks: pages and Prometheus together cost no more."""


class PushedReader:
    """Keeps the last answers. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._clock = SystemClock()
        self._answers: list[PushedMetricsAnswer] = []
        self._asked_ms: MonotonicMs | None = None

    def read(
        self, state: Mapping[str, Any], brokers: Sequence[BrokerStats]
    ) -> list[PushedMetricsAnswer]:
        """The answers of the brokers that have values. `state` is the supervisor's answer.

        A broker that does not answer is left out.
        """
        alive = [each.broker for each in brokers if each.state == ALIVE]
        # A client pushes to one broker, and the others measure its requests, too.
        asked = alive if any(map(_has_values, brokers)) else []
        now_ms = self._clock.monotonic_ms()
        if self._asked_ms is None or now_ms - self._asked_ms >= _FRESH_MS:
            self._answers = self._ask(state, alive, asked) if asked else []
            self._asked_ms = self._clock.monotonic_ms()
        return self._answers

    def _ask(
        self, state: Mapping[str, Any], alive: Sequence[int], asked: Sequence[int]
    ) -> list[PushedMetricsAnswer]:
        try:
            servers = Servers(list(addresses_of(state, alive).values()), security_of(self._files))
            with Admin(servers, CLIENT_ID, TIMEOUT_S) as admin:
                question = PushedMetricsQuestion(None, (), VALUES_MAX)
                answers, silent = pushed_metrics(admin, question, asked)
        except (UserError, Refused) as problem:
            answers, silent = [], [str(problem)]
        for reason in silent:
            log.info("no metrics of clients: %s", reason)
        return answers


def _has_values(broker: BrokerStats) -> bool:
    figure = broker.stats.values.get(BY_KEY["PushingClientCount"].name, 0)
    return broker.state == ALIVE and figure > 0
