"""A running cluster for the dashboard's routes: stats files, the supervisor, the brokers."""

import threading
import time
from collections.abc import Mapping
from typing import Final

from cluster.analytics.capacity.scenario import Scenario
from cluster.client.quota_requests import alter_quotas, describe_quotas
from cluster.dashboard.broker_actions import ACTIONS, action_done, action_request, action_row
from cluster.dashboard.broker_connection import CHANGE_TIMEOUT_S, addresses_of, connect
from cluster.dashboard.capacity_view import capacity_view
from cluster.dashboard.client_rows import client_row, ranked
from cluster.dashboard.cluster_reader import ClusterReader
from cluster.dashboard.cluster_view import api_view
from cluster.dashboard.groups.reader import GroupReader
from cluster.dashboard.held_reader import HeldReader
from cluster.dashboard.live_rows import CLIENTS_MAX, live_rows, matches
from cluster.dashboard.process_figures import process_figures
from cluster.dashboard.prometheus import exposition
from cluster.dashboard.pushed_reader import PushedReader
from cluster.dashboard.pushed_view import pushed_view
from cluster.dashboard.quota_command import quota_command
from cluster.dashboard.quota_list import quota_list
from cluster.dashboard.recent_history import NoHistory
from cluster.dashboard.recent_throttles import RecentThrottles
from cluster.dashboard.request_times import RecentTimes
from cluster.dashboard.rollup_history import client_history
from cluster.dashboard.sampling.rollup_past import RANGES_S as ROLLUP_RANGES_S
from cluster.dashboard.sampling.rollup_past import rollup_past
from cluster.dashboard.sampling.sampler import Sampler
from cluster.dashboard.sources import Done, Json, Reading
from cluster.dashboard.what_if_view import what_if_view
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import NotRunning, ask_supervisor
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import Stats
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused, UserError
from cluster.model.finite_json import finite
from cluster.model.printable import one_line
from cluster.model.quotas import DEFAULT, Name, QuotaEntity
from cluster.protocol.peer.pushed_metrics import PushedMetricsAnswer
from cluster.runtime.installation import launcher
from cluster.views.broker_rates import PastReadings, idle_share, metric_values
from cluster.views.client_states import ALIVE, BrokerStats, by_client, client_states, read_brokers
from cluster.views.client_verdict import client_verdict
from cluster.views.cluster_health import cluster_health
from cluster.views.group_lags import group_lags
from cluster.views.known_rows import KnownRows
from cluster.views.listed_clients import has_users
from cluster.views.process_orders import command_line
from cluster.views.quota_explanation import explanation
from cluster.views.running_cluster import read_disks

GROUPS_MAX: Final = 200
"""Groups in one reading; if there are more, those with the largest lag."""
_RATES_OVER_MS: Final = 3_000
_SHOWN: Final = tuple(
    BY_KEY[key]
    for key in (
        *("RequestsPerSec", "BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec"),
        *("ThrottledRequestsPerSec", "ConnectionCount", "MutedChannels", "PurgatorySize"),
    )
)
"""The metrics of brokers in every reading; `/metrics` has all of them."""


class ClusterSources:
    """Implements `Sources`; calls come from several threads, and each reads the cluster."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._recent_times = RecentTimes()
        self._recent_throttles = RecentThrottles()
        self._cluster = ClusterReader(files)
        self._held = HeldReader(files)
        self._pushed = PushedReader(files)
        self._asking = threading.Lock()
        """Guards `_pushed`."""
        self._past = PastReadings(_RATES_OVER_MS)
        self._lock = threading.Lock()
        """Guards `_past`."""
        self._known = KnownRows()
        self._reading = threading.Lock()
        """Guards `_known`."""
        self._sampler = Sampler(self._read, lambda: self._state()["events"])
        self.groups = GroupReader(files, self._read, self._state, self._sampler)

    def start_sampling(self) -> None:
        """Sample the brokers' figures until the process ends."""
        self._sampler.start()

    def series(self, name: str, since_ms: int, since_event: int) -> Json:
        if name in ROLLUP_RANGES_S:
            place, command = self._files.path / "rollup", launcher(self._files.path)
            found: Json = finite(rollup_past(place, name, _now_ms(), command))
            return found
        return self._sampler.series(name, since_ms, since_event)

    def client_series(self, since_ms: int, client: tuple[str, str] | None) -> Json:
        return self._sampler.clients(since_ms, client)

    def live(self) -> Reading:
        brokers = self._read()
        rows, left_out = live_rows(brokers, _monotonic_ms())
        return Reading(
            rows,
            {
                **self._sections(brokers),
                "clients_left_out": left_out,
                "has_users": has_users(row.user for each in brokers for row in each.stats.rows),
            },
        )

    def found(self, search: str) -> Reading:
        rows, left_out = live_rows(self._read(), _monotonic_ms(), search)
        return Reading(rows, {"clients_left_out": left_out})

    def now(self, search: str | None = None) -> Json:
        brokers = self._read()
        groups = by_client(client_states(brokers))
        if search is not None:
            groups = {key: states for key, states in groups.items() if matches(key, search)}
        found = ranked(groups)
        return {
            **self._sections(brokers),
            "clients": [client_row(*each) for each in found[:CLIENTS_MAX]],
            "clients_left_out": max(0, len(found) - CLIENTS_MAX),
        }

    def _read(self) -> list[BrokerStats]:
        with self._reading:
            self._known.begin()
            return read_brokers(self._files, unpack=self._known.unpack)

    def _sections(self, brokers: list[BrokerStats]) -> Json:
        """All of a reading except the clients."""
        now_ms = _now_ms()
        lags = group_lags(brokers, now_ms)
        cluster = self._state_or_none()
        events = [] if cluster is None else cluster.pop("events")
        self._sampler.take_events(events)
        return {
            "ts": now_ms,
            "events": events,
            "cluster": cluster,
            "counts": {"topics": _topic_count(brokers)},
            "health": cluster_health(cluster, brokers, read_disks(cluster)).to_json(),
            "brokers": [_broker(*reading) for reading in self._readings(brokers)],
            "groups": [dict(group.fields) for group in lags[:GROUPS_MAX]],
            "groups_left_out": max(0, len(lags) - GROUPS_MAX),
        }

    def readings(self) -> list[tuple[BrokerStats, Stats | None]]:
        """The stats file of each broker, with an earlier reading from which to compute rates."""
        return self._readings(self._read())

    def _readings(self, brokers: list[BrokerStats]) -> list[tuple[BrokerStats, Stats | None]]:
        """Each reading with the previous one, from which rates are computed."""
        with self._lock:
            return [(broker, self._past.add(broker.broker, broker.stats)) for broker in brokers]

    def _state(self) -> Json:
        return ask_supervisor(self._files.control_socket, {"command": "status"})

    def _state_or_none(self) -> Json | None:
        try:
            return self._state()
        except NotRunning:
            return None

    def client(self, user: str, client_id: str) -> Json:
        brokers = read_brokers(self._files)
        states = [
            state
            for state in client_states(brokers)
            if (state.row.user, state.row.client_id) == (user, client_id)
        ]
        if not states:
            raise UserError(
                f"no broker has heard of {one_line(client_id)} of user {one_line(user)} within the"
                " last hour"
            )
        verdict = client_verdict(states, brokers)
        explained: Json = finite(
            {
                "standing": verdict.standing,
                "sentence": verdict.sentence,
                "quotas": [explanation(group) for group in by_client(states).values()],
            }
        )
        return explained

    def cluster(self) -> Json:
        brokers = read_brokers(self._files)
        apis = api_view(self._readings(brokers))
        return {**self._cluster.read(self._state(), brokers, _monotonic_ms()), "apis": apis}

    def held_back(self) -> Json:
        return self._held.read(self._state(), read_brokers(self._files))

    def pushed(self) -> Json:
        brokers = read_brokers(self._files)
        apis = api_view(self._readings(brokers))
        found: Json = finite(pushed_view(self._pushed_to(self._state(), brokers), apis))
        return found

    def history(self, user: str, client_id: str, since_ms: int) -> Json:
        place, command = self._files.path / "rollup", launcher(self._files.path)
        found: Json = finite(client_history(place, user, client_id, since_ms, _now_ms(), command))
        return found

    def capacity(self) -> Json:
        place, command = self._files.path / "rollup", launcher(self._files.path)
        found: Json = finite(capacity_view(place, _now_ms(), command))
        return found

    def what_if(self, scenario: Scenario) -> Json:
        place, command = self._files.path / "rollup", launcher(self._files.path)
        try:
            found: Json = finite(what_if_view(place, scenario, _now_ms(), command))
        except NoHistory as none:
            raise UserError(f"{none}. {none.remedy}: {command} rollup") from None
        return found

    def alter_quota(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> Done:
        alive = [each.broker for each in read_brokers(self._files) if each.state == ALIVE]
        addresses = addresses_of(self._state(), alive)
        named = QuotaEntity(*(_name(entity, kind) for kind in ("user", "client-id", "ip")))
        try:
            with connect(self._files, addresses.values(), CHANGE_TIMEOUT_S) as client:
                alter_quotas(client, named, changes)
        except Refused as refused:
            raise UserError(refused.reason) from None
        return Done(
            f"{named}: changed; it takes effect on every broker.",
            self.quota_command(entity, changes),
        )

    def quota_command(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> str:
        return quota_command(launcher(self._files.path), entity, changes)

    def quotas(self) -> Json:
        alive = [each.broker for each in read_brokers(self._files) if each.state == ALIVE]
        addresses = addresses_of(self._state(), alive)
        try:
            with connect(self._files, addresses.values()) as client:
                found = describe_quotas(client)
        except Refused as refused:
            raise UserError(refused.reason) from None
        return quota_list(launcher(self._files.path), found)

    def actions(self) -> Json:
        program = launcher(self._files.path)
        return {
            "actions": [
                action_row(program, broker, action)
                for broker in self._state()["brokers"]
                for action in ACTIONS
            ]
        }

    def act(self, broker: int, action: str) -> Done:
        ask_supervisor(self._files.control_socket, action_request(broker, action))
        program = launcher(self._files.path)
        return Done(action_done(broker, action), command_line(program, broker, action))

    def exposition(self, broker: int | None, *, openmetrics: bool) -> bytes:
        brokers = read_brokers(self._files)
        health = None
        state = self._state_or_none()
        if broker is None:
            health = cluster_health(state, brokers, read_disks(state))
        else:
            brokers = [each for each in brokers if each.broker == broker]
            if not brokers:
                raise UserError(f"broker {broker} has written no figures")
        processes = {
            each.broker: found
            for each in brokers
            if each.state == ALIVE and (found := process_figures(each.stats.pid)) is not None
        }
        return exposition(
            *(brokers, self._recent_times, self._recent_throttles, processes),
            health=health,
            pushed=[] if state is None else self._pushed_to(state, brokers),
            openmetrics=openmetrics,
        )

    def _pushed_to(self, state: Json, brokers: list[BrokerStats]) -> list[PushedMetricsAnswer]:
        """What clients pushed to these brokers."""
        numbers = {each.broker for each in brokers}
        with self._asking:
            answers = self._pushed.read(state, read_brokers(self._files))
        return [each for each in answers if each.broker in numbers]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> MonotonicMs:
    return MonotonicMs(time.monotonic_ns() // 1_000_000)


def _broker(broker: BrokerStats, former: Stats | None) -> Json:
    rates = idle = None
    if former is not None and broker.state == ALIVE:
        values = metric_values(broker.stats, former, _SHOWN)
        rates = {key: round(value, 1) for key, value in values.items()}
        share = idle_share(broker.stats, former)
        idle = None if share is None else round(share, 2)
    return {
        "broker": broker.broker,
        "state": broker.state,
        "age_ms": broker.age_ms,
        "rates": rates,
        "idle": idle,
    }


def _topic_count(brokers: list[BrokerStats]) -> int:
    """The number of topics that the controller counts."""
    name = BY_KEY["GlobalTopicCount"].name
    counts = (each.stats.values.get(name, 0) for each in brokers if not each.is_dead)
    return int(max(counts, default=0))


def _name(entity: Mapping[str, str | None], kind: str) -> Name | None:
    if kind not in entity:
        return None
    given = entity[kind]
    return DEFAULT if given is None else given
