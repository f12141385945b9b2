"""What `quotas explain` prints: a sentence and the limits, or everything. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.printable import one_line
from cluster.model.quotas import RULES
from cluster.runtime.text_table import table_text
from cluster.tools.quotas import client_text, what_if
from cluster.views.client_states import ALIVE, BrokerStats, ClientState, by_client
from cluster.views.client_verdict import client_verdict
from cluster.views.explained_lines import wrapped
from cluster.views.listed_clients import (
    ListedClient,
    has_users,
    hidden_words,
    listed_clients,
)
from cluster.views.quantities import duration, percent, rate
from cluster.views.quota_explanation import (
    arithmetic,
    by_broker,
    newest,
    totals,
    why_long,
)
from cluster.views.rule_words import APPLIES_TO
from cluster.views.supposed_limits import Supposed

_HEADINGS: Final = (
    *("BROKER", "RATE", "LIMIT", "USED", "DELAY", "MUTE LEFT", "REQUESTS", "THROTTLED"),
)
_SHARED: Final = {
    "user": "all clients of this user share it",
    "default-user": "all clients of this user share it",
    "client": "all users of this client id share it",
    "default-client": "all users of this client id share it",
}


def brief_lines(
    found: Sequence[ClientState],
    brokers: Sequence[BrokerStats],
    suppositions: Sequence[Supposed],
    *,
    with_hidden: bool,
) -> Iterator[str]:
    """For each client one sentence, and the rules with a limit.

    `with_hidden`: also clients that lists hide (`listed_clients.Hidden`).
    """
    clients = listed_clients(found, _read_ms(brokers))
    shown = [each for each in clients if with_hidden or each.hidden is None] or clients
    with_user = has_users(row.user for broker in brokers for row in broker.stats.rows)
    for client in shown:
        yield from _sentence(client, brokers, with_user=with_user)
        for quota, group in client.quotas.items():
            yield from _limit_lines(quota, group)
            for what in suppositions:
                if what.kind == quota:
                    yield from what_if.lines(what, by_broker(group))
        yield ""
    keys = [(each.user, each.client_id, quota) for each in shown for quota in each.quotas]
    for line in _unanswered(keys, suppositions):
        if line:
            yield from (line, "")
    left_out = hidden_words(each.hidden for each in clients) if len(shown) < len(clients) else ""
    more = f", and {left_out}" if left_out else ""
    yield from wrapped("", f"--verbose shows every rule, broker, window and mute{more}.")


def _sentence(
    client: ListedClient, brokers: Sequence[BrokerStats], *, with_user: bool
) -> Iterator[str]:
    user = f" of user {one_line(client.user)}" if with_user else ""
    sentence = client_verdict(client.states, brokers).sentence
    yield from wrapped("", f"Client '{one_line(client.client_id)}'{user} is {sentence}.")


def _limit_lines(quota: str, group: Sequence[ClientState]) -> Iterator[str]:
    """The rule of a limit, and its arithmetic where the delay is longest."""
    row = newest(group).row
    if row.rule is None:
        return
    yield (
        f"  {quota}: {rate(quota, row.limit)} on each broker, set for {APPLIES_TO[row.rule]}"
        f" (rule {row.rule})"
    )
    living = [state for state in group if not state.source.is_dead]
    if living:
        worst = max(living, key=lambda state: (state.row.delay_ms, state.row.rate))
        yield f"    broker {worst.source.broker}: {arithmetic(worst, exact=False)}"
        yield from _why_long([worst])


def _read_ms(brokers: Sequence[BrokerStats]) -> MonotonicMs:
    """When the brokers' files were read."""
    return MonotonicMs(max(each.stats.written_ms + each.age_ms for each in brokers))


def whole_lines(
    found: Sequence[ClientState],
    brokers: Sequence[BrokerStats],
    suppositions: Sequence[Supposed],
) -> Iterator[str]:
    """Everything that is known."""
    present = None
    groups = by_client(found)
    for (user, client_id, quota), group in groups.items():
        if present != (user, client_id):
            if present is not None:
                yield ""
            present = (user, client_id)
            states = [s for s in found if (s.row.user, s.row.client_id) == present]
            sentence = client_verdict(states, brokers).sentence
            yield from wrapped(
                "", f"Client '{one_line(client_id)}' of user {one_line(user)} is {sentence}."
            )
            yield from client_text.software_lines(states)
        row = newest(group).row
        yield ""
        if row.rule is None:
            yield f"{quota}: no rule matches, so there is no limit"
        else:
            shared = f"; {_SHARED[row.rule]}" if row.rule in _SHARED else ""
            yield f"{quota}: {row.rule}, {rate(quota, row.limit)} on each broker{shared}"
        rules = [
            (f"{'>' if rule == row.rule else ' '} {rule}", rate(quota, limit))
            for rule, limit in zip(RULES, row.limits, strict=True)
        ]
        yield table_text(("", ""), rules, indent="  ")
        yield from _broker_table(quota, group)
        yield from client_text.window_lines(quota, group)
        yield from client_text.pause_lines(group)
        for what in suppositions:
            if what.kind == quota:
                yield from what_if.lines(what, by_broker(group))
    yield from _unanswered(list(groups), suppositions)
    yield ""
    yield from client_text.thread_lines(brokers)
    for broker in brokers:
        if broker.state != ALIVE:
            yield ""
            yield (
                f"Broker {broker.broker} is {broker.state}: its figures are"
                f" {duration(broker.age_ms)} old."
            )


def _unanswered(
    keys: Sequence[tuple[str, str, str]], suppositions: Sequence[Supposed]
) -> Iterator[str]:
    """The suppositions about quotas that none of the clients (user, client id, quota) use."""
    for what in suppositions:
        if all(quota != what.kind for _, _, quota in keys):
            yield ""
            yield (
                f"if {what.key} were {rate(what.kind, what.limit)}: nobody named here used anything"
                " of it within the last hour, so it would delay nothing"
            )


def _broker_table(quota: str, group: Sequence[ClientState]) -> Iterator[str]:
    ordered = by_broker(group)
    rows = [
        (
            _label(state.source),
            rate(quota, state.row.rate),
            rate(quota, state.row.limit),
            percent(_as_percent(state.row.utilization)),
            duration(state.row.delay_ms),
            duration(state.muted_left_ms),
            str(state.row.requests),
            str(state.row.throttled),
        )
        for state in ordered
    ]
    total = totals(group)
    rows.append(
        (
            "sum",
            rate(quota, total["rate"]),
            rate(quota, total["limit"]),
            percent(_as_percent(total["utilisation"])),
            duration(total["delay_ms"]),
            duration(total["muted_left_ms"]),
            str(total["requests"]),
            str(total["throttled"]),
        )
    )
    yield table_text(_HEADINGS, rows, right=_HEADINGS[1:], indent="    ")
    for state in ordered:
        if state.row.limit is not None:
            yield f"    broker {state.source.broker}: {arithmetic(state)}"
    yield from _why_long(ordered)


def _why_long(states: Sequence[ClientState]) -> Iterator[str]:
    """The same words for all brokers."""
    for words in dict.fromkeys(filter(None, map(why_long, states))):
        yield from wrapped("    ", words, indent=4)


def _label(broker: BrokerStats) -> str:
    return str(broker.broker) if broker.state == ALIVE else f"{broker.broker} ({broker.state})"


def _as_percent(utilization: float | None) -> float | None:
    return None if utilization is None else utilization * 100
