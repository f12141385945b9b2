"""The four tables of `top`, from one look at the brokers' stats files. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.metrics.stats_reader import Stats
from cluster.model.clocks import MonotonicMs
from cluster.model.printable import one_line
from cluster.model.quotas import QuotaKind
from cluster.views.broker_rates import api_rates, idle_share, metric_values, topic_values
from cluster.views.client_states import ALIVE, BrokerStats, ClientState, client_states
from cluster.views.client_verdict import Standing, client_verdict, judged_pauses
from cluster.views.group_lags import GroupLags, states_line
from cluster.views.listed_clients import ListedClient, has_users, hidden_words, listed_clients
from cluster.views.quantities import duration, number, percent, rate, usage

_INTERNAL: Final = "__"
"""The beginning of the names of Kafka's and Milena's own topics."""
_OTHER_TOPICS: Final = "_other"
"""The row of the stats file for topics without one of their own."""
_STYLES: Final = {
    Standing.THROTTLED: "red",
    Standing.NEAR: "yellow",
    Standing.BELOW: "green",
    Standing.GONE: "dim",
    Standing.IDLE: "dim",
}

Value = str | float | None
"""What a column is sorted by."""


class GroupProgress(NamedTuple):
    """How a group moves, per second."""

    read: float
    """Committed records."""
    lag: float
    """Records by which the lag grows; negative if it falls."""


class Look(NamedTuple):
    """One look at all brokers."""

    brokers: Sequence[BrokerStats]
    formers: Mapping[int, Stats | None]
    """By broker the earlier reading with which rates are computed."""
    groups: Sequence[GroupLags]
    progress: Mapping[str, GroupProgress]
    now_ms: MonotonicMs

    @property
    def with_rates(self) -> "list[tuple[BrokerStats, Stats]]":
        """The living brokers whose rates are known, each with its earlier reading."""
        return [
            (broker, former)
            for broker in self.brokers
            if not broker.is_dead and (former := self.formers.get(broker.broker)) is not None
        ]


class Row(NamedTuple):
    """One client, topic, group or broker."""

    name: str
    cells: tuple[str, ...]
    values: tuple[Value, ...]
    """One for each cell."""
    fields: Mapping[str, Any]
    """For scripts."""
    style: str = ""
    note: str = ""
    """What is shown of the row that is selected."""


class Table(NamedTuple):
    """A table in its usual order."""

    columns: tuple[str, ...]
    amounts: tuple[str, ...]
    """The columns that are numbers."""
    dispensable: tuple[str, ...]
    """The columns that a narrow terminal omits, in this order."""
    rows: list[Row]
    hidden: str = ""
    """How many rows are hidden, and why."""


# -- clients ---------------------------------------------------------------------------------------

_CLIENT_COLUMNS: Final = (
    *("CLIENT-ID", "USER", "WRITES", "READS", "TIME", "USED", "LIMIT", "DELAY", "WAITS", "CONNS"),
)


def clients_table(look: Look, *, everyone: bool) -> Table:
    """A row for each client with its quotas beside it, throttled ones first."""
    listed = listed_clients(client_states(look.brokers), look.now_ms)
    shown = listed if everyone else [each for each in listed if each.hidden is None]
    rows = [_client(each, look.brokers) for each in shown]
    columns: tuple[str, ...] = _CLIENT_COLUMNS
    if not has_users(each.user for each in listed):
        columns, rows = _without("USER", columns, rows)
    return Table(
        columns,
        tuple(each for each in columns if each not in ("CLIENT-ID", "USER", "LIMIT", "WAITS")),
        tuple(
            each
            for each in ("CONNS", "WAITS", "TIME", "USER", "LIMIT", "READS", "USED")
            if each in columns
        ),
        rows,
        "" if everyone else hidden_words(each.hidden for each in listed),
    )


def _client(client: ListedClient, brokers: Sequence[BrokerStats]) -> Row:
    living = [state for state in client.states if not state.source.is_dead]
    rates = {
        kind: sum(state.row.rate for state in living if state.row.quota == kind)
        for kind in (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
    }
    limited = [state for state in living if state.row.limit is not None]
    worst = max(limited, key=lambda state: state.row.utilization or 0.0, default=None)
    used = None if worst is None else worst.row.utilization
    delay_ms = max((max(each.row.delay_ms, each.muted_left_ms) for each in living), default=0)
    delay_ms = delay_ms if client.is_throttled else 0
    waits = judged_pauses([worst]) if worst is not None else None
    connections = max((state.row.connections for state in living), default=0)
    verdict = client_verdict(client.states, brokers)
    values: tuple[Value, ...] = (
        *(client.client_id, client.user, *rates.values(), used),
        *(None if worst is None else worst.row.limit, delay_ms, _yes_no(waits), connections),
    )
    cells = (
        one_line(client.client_id),
        one_line(client.user),
        *(rate(kind, amount) if amount else "" for kind, amount in rates.items()),
        "" if used is None else percent(100 * used),
        "" if worst is None else _limit(worst),
        duration(delay_ms) if delay_ms else "",
        _yes_no(waits),
        str(connections) if connections else "",
    )
    fields = {
        "client_id": client.client_id,
        "user": client.user,
        "hidden": client.hidden,
        "standing": verdict.standing,
        "sentence": verdict.sentence,
        "write_bytes_per_s": rates[QuotaKind.PRODUCE],
        "read_bytes_per_s": rates[QuotaKind.FETCH],
        "request_percent": rates[QuotaKind.REQUEST],
        "quota": None if worst is None else worst.row.quota,
        "limit": None if worst is None else worst.row.limit,
        "used": used,
        "delay_ms": delay_ms,
        "honors_throttling": waits,
        "connections": connections,
    }
    style = "dim" if client.hidden else _STYLES.get(verdict.standing, "")
    name = f"{client.client_id} {client.user}"
    note = f"{one_line(client.client_id)} is {verdict.sentence}."
    return Row(name, cells, values, fields, style, note)


def _limit(state: ClientState) -> str:
    return f"{rate(state.row.quota, state.row.limit)} {state.row.quota}"


def _yes_no(waits: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[waits]


def _without(
    heading: str, columns: tuple[str, ...], rows: Iterable[Row]
) -> tuple[tuple[str, ...], list[Row]]:
    """The table without a column."""
    at = columns.index(heading)
    return (*columns[:at], *columns[at + 1 :]), [
        row._replace(
            cells=(*row.cells[:at], *row.cells[at + 1 :]),
            values=(*row.values[:at], *row.values[at + 1 :]),
        )
        for row in rows
    ]


# -- topics ----------------------------------------------------------------------------------------

_TOPIC_COLUMNS: Final = (
    *("TOPIC", "PARTITIONS", "IN", "RECORDS/S", "OUT", "REQUESTS/S", "FAILED/S", "LAG", "SIZE"),
)


def topics_table(look: Look, *, everyone: bool) -> Table:
    """A row for each topic with rates over all brokers, the busiest first."""
    sums: dict[str, dict[str, float]] = {}
    for broker, former in look.with_rates:
        for topic, values in topic_values(broker.stats, former).items():
            total = sums.setdefault(topic, dict.fromkeys(values, 0.0))
            for key, value in values.items():
                total[key] += value
    lags: dict[str, int] = {}
    for group in look.groups:
        for partition in group.partitions:
            topic = str(partition["topic"])
            lags[topic] = lags.get(topic, 0) + (partition["lag"] or 0)
    shown = [each for each in sums if everyone or not each.startswith(_INTERNAL)]
    rows = [_topic(each, sums[each], lags.get(each)) for each in shown]
    rows.sort(key=lambda row: (-(row.fields["in"] + row.fields["out"]), row.name))
    left_out = len(sums) - len(shown)
    return Table(
        _TOPIC_COLUMNS,
        _TOPIC_COLUMNS[1:],
        ("FAILED/S", "REQUESTS/S", "SIZE", "PARTITIONS", "LAG", "RECORDS/S"),
        rows,
        f"{left_out:,} more: internal topics" if left_out else "",
    )


def _topic(topic: str, values: Mapping[str, float], lag: int | None) -> Row:
    requests = values["TotalProduceRequestsPerSec"] + values["TotalFetchRequestsPerSec"]
    failed = values["FailedProduceRequestsPerSec"] + values["FailedFetchRequestsPerSec"]
    fields: dict[str, Any] = {
        "topic": topic,
        "partitions": int(values["LeaderCount"]),
        "in": values["BytesInPerSec"],
        "records": values["MessagesInPerSec"],
        "out": values["BytesOutPerSec"],
        "requests": requests,
        "failed": failed,
        "lag": lag,
        "size": values["Size"],
        "under_replicated": int(values["UnderReplicated"]),
    }
    name = "(other topics)" if topic == _OTHER_TOPICS else one_line(topic)
    cells = (
        name,
        f"{fields['partitions']:,}",
        _bytes_per_s(values["BytesInPerSec"]),
        _per_s(values["MessagesInPerSec"]),
        _bytes_per_s(values["BytesOutPerSec"]),
        _per_s(requests),
        _per_s(failed),
        "" if lag is None else f"{lag:,}",
        usage(QuotaKind.PRODUCE, values["Size"]),
    )
    under = fields["under_replicated"]
    note = f"{under:,} under-replicated partitions" if under else ""
    style = "red" if failed else "yellow" if under else ""
    return Row(topic, cells, tuple(fields.values())[: len(cells)], fields, style, note)


# -- groups ----------------------------------------------------------------------------------------

_GROUP_COLUMNS: Final = (
    *("GROUP", "TYPE", "STATE", "MEMBERS", "PARTITIONS", "LAG", "LAG CHANGE/S", "READ/S"),
)


def groups_table(look: Look, *, everyone: bool) -> Table:
    """A row for each group, the largest lag first; without empty ones that lag nowhere."""
    shown = [each for each in look.groups if everyone or each.lag or each.fields["members"]]
    left_out = len(look.groups) - len(shown)
    return Table(
        _GROUP_COLUMNS,
        _GROUP_COLUMNS[3:],
        ("TYPE", "PARTITIONS", "MEMBERS", "LAG CHANGE/S"),
        [_group(each, look.progress.get(str(each.fields["group"]))) for each in shown],
        f"{left_out:,} more: groups without members and lag" if left_out else "",
    )


def _group(group: GroupLags, progress: GroupProgress | None) -> Row:
    fields: dict[str, Any] = {
        **{name: group.fields[name] for name in ("group", "type", "state", "members")},
        "partitions": group.fields["partitions"],
        "lag": group.lag,
        "lag_change_per_s": None if progress is None else progress.lag,
        "read_per_s": None if progress is None else progress.read,
    }
    cells = (
        group.name,
        str(fields["type"]),
        str(fields["state"]),
        f"{fields['members']:,}",
        f"{fields['partitions']:,}",
        f"{group.lag:,}",
        "" if progress is None or not round(progress.lag) else f"{progress.lag:+,.0f}",
        "" if progress is None else _per_s(progress.read),
    )
    is_growing = progress is not None and progress.lag > 0 and group.lag > 0
    style = "yellow" if "Rebalance" in cells[2] or cells[2] == "Reconciling" else ""
    note = f"{group.name}: {states_line(group)} within the last interval"
    return Row(
        str(fields["group"]),
        cells,
        tuple(fields.values()),
        fields,
        "red" if is_growing else style,
        note,
    )


# -- brokers ---------------------------------------------------------------------------------------

_BROKER_COLUMNS: Final = (
    *("BROKER", "STATE", "BUSY", "IN", "OUT", "REQUESTS/S", "PRODUCE P99", "FETCH P99"),
    *("THROTTLED/S", "CONNS", "LEADERS", "REPLICAS", "BEHIND", "LOGS"),
)


def brokers_table(look: Look, *, everyone: bool) -> Table:  # noqa: ARG001 - like the others
    """A row for each broker, by its id."""
    return Table(
        _BROKER_COLUMNS,
        tuple(each for each in _BROKER_COLUMNS if each not in ("BROKER", "STATE")),
        (
            *("REPLICAS", "CONNS", "LOGS", "LEADERS", "FETCH P99", "PRODUCE P99"),
            *("BEHIND", "THROTTLED/S", "REQUESTS/S"),
        ),
        [_broker(each, look.formers.get(each.broker)) for each in look.brokers],
    )


def _broker(broker: BrokerStats, former: Stats | None) -> Row:
    former = None if broker.is_dead else former
    values = metric_values(broker.stats, former)
    idle = None if former is None else idle_share(broker.stats, former)
    p99 = (
        {}
        if former is None
        else {each.api: each.p99_ms for each in api_rates(broker.stats, former)}
    )
    is_controller = not broker.is_dead and values["ActiveControllerCount"] > 0

    def per_s(key: str) -> float | None:
        return None if former is None else values[key]

    fields: dict[str, Any] = {
        "broker": broker.broker,
        "state": broker.state,
        "busy": None if idle is None else 1 - idle,
        "in": per_s("BytesInPerSec"),
        "out": per_s("BytesOutPerSec"),
        "requests": per_s("RequestsPerSec"),
        "produce_p99_ms": p99.get("Produce"),
        "fetch_p99_ms": p99.get("FetchConsumer"),
        "throttled": per_s("ThrottledRequestsPerSec"),
        "connections": int(values["ConnectionCount"]),
        "leaders": int(values["LeaderCount"]),
        "replicas": int(values["PartitionCount"]),
        "under_replicated": int(values["UnderReplicatedPartitions"]),
        "log_bytes": values["LogSize"],
        "is_controller": is_controller,
        "age_ms": broker.age_ms,
    }
    state = broker.state if broker.state == ALIVE else f"{broker.state} {duration(broker.age_ms)}"
    cells = (
        str(broker.broker),
        f"{state}, controller" if is_controller else state,
        "" if idle is None else percent(100 * (1 - idle)),
        _known(fields["in"], _bytes_per_s),
        _known(fields["out"], _bytes_per_s),
        _known(fields["requests"], _per_s),
        _known(fields["produce_p99_ms"], _milliseconds),
        _known(fields["fetch_p99_ms"], _milliseconds),
        _known(fields["throttled"], _per_s),
        *(f"{fields[key]:,}" for key in ("connections", "leaders", "replicas")),
        f"{fields['under_replicated']:,}" if fields["under_replicated"] else "",
        usage(QuotaKind.PRODUCE, values["LogSize"]),
    )
    style = "" if broker.state == ALIVE else "dim" if broker.is_dead else "yellow"
    return Row(str(broker.broker), cells, tuple(fields.values())[: len(cells)], fields, style)


TABLES: Final[Mapping[str, Callable[..., Table]]] = {
    "clients": clients_table,
    "topics": topics_table,
    "groups": groups_table,
    "brokers": brokers_table,
}
"""By the name of the view, in the order of their keys."""


def summary(look: Look) -> str:
    """One line about all of it."""
    brokers = look.brokers
    alive = sum(broker.state == ALIVE for broker in brokers)
    parts = [f"{alive} of {len(brokers)} brokers alive"]
    lag = f"lag {sum(group.lag for group in look.groups):,}"
    known = [metric_values(broker.stats, former) for broker, former in look.with_rates]
    if known:
        total = {key: sum(each[key] for each in known) for key in known[0]}
        parts += [
            f"in {rate(QuotaKind.PRODUCE, total['BytesInPerSec'])}",
            f"out {rate(QuotaKind.FETCH, total['BytesOutPerSec'])}",
            lag,
            f"{total['RequestsPerSec']:,.0f} requests/s",
            f"{total['ThrottledRequestsPerSec']:,.0f} throttled/s",
        ]
    return ", ".join(parts if known else [*parts, lag])


def _bytes_per_s(amount: float) -> str:
    return rate(QuotaKind.PRODUCE, amount) if amount else ""


def _per_s(amount: float) -> str:
    return "" if not amount else f"{amount:,.0f}" if amount >= 100 else number(amount)


def _milliseconds(amount: float) -> str:
    return f"{number(amount)} ms"


def _known(amount: float | None, text: Callable[[float], str]) -> str:
    return "" if amount is None else text(amount)
