"""What `quotas explain` says about a client beside limits: software, windows, pauses. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.model.printable import one_line
from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import QuotaKind
from cluster.views.client_states import BrokerStats, ClientState
from cluster.views.quantities import duration, percent, usage
from cluster.views.quota_explanation import by_broker

METRIC_OF_KEY: Final = {metric.key: metric for metric in BROKER_METRICS}
_TIMES: Final = ("BusyTimeUs", "ExemptRequestTimeUs")
_JUDGMENTS: Final = {
    True: "it honors throttling: it pauses as it should",
    False: "it does not honor throttling: it keeps sending, and only the mute limits it",
    None: "too few mutes to tell whether it honors throttling",
}


def software_lines(states: Sequence[ClientState]) -> Iterator[str]:
    """The client's software, and its connections to each broker."""
    by_broker = {state.source.broker: state for state in states}
    names = sorted({state.row.software for state in states if state.row.software})
    told = ", ".join(one_line(name) for name in names)
    yield f"  software: {told or 'it does not say (ApiVersions before version 3)'}"
    counts = ", ".join(
        f"{by_broker[broker].row.connections} to broker {broker}" for broker in sorted(by_broker)
    )
    yield f"  connections: {counts}"


def thread_times(broker: BrokerStats) -> dict[str, float] | None:
    """Seconds for which a broker's thread was busy since its start: for clients, and for nobody.

    None if the broker does not count them. The sum lacks clients that were forgotten.
    """
    values = broker.stats.values
    busy, exempt = (values.get(METRIC_OF_KEY[key].name) for key in _TIMES)
    if not busy or exempt is None:
        return None
    requests = [row.usage for row in broker.stats.rows if row.quota == QuotaKind.REQUEST]
    charged_s = sum(requests) / 100
    return {
        "busy_s": busy / 1e6,
        "clients": len(requests),
        "charged_s": charged_s,
        "exempt_s": exempt / 1e6,
        "accounted_share": (charged_s + exempt / 1e6) / (busy / 1e6),
    }


def thread_lines(brokers: Sequence[BrokerStats]) -> Iterator[str]:
    """The share of its thread's time that each broker has charged."""
    for broker in brokers:
        times = thread_times(broker)
        if times is not None:
            yield (
                f"Broker {broker.broker}'s thread was busy for {times['busy_s']:.2f} s since it"
                f" began: {times['charged_s']:.2f} s are charged to clients,"
                f" {times['exempt_s']:.2f} s to nobody, in sum"
                f" {percent(100 * times['accounted_share'])}."
            )


def window_lines(quota: str, group: Sequence[ClientState]) -> Iterator[str]:
    """The windows of each broker's rate, oldest first."""
    for state in by_broker(group):
        windows = [
            f"{usage(quota, window['usage'])} ({duration(window['began_ms_ago'])} ago)"
            for window in state.windows()
        ]
        if windows:
            yield f"    broker {state.source.broker}, windows: {', '.join(windows)}"


def pause_lines(group: Sequence[ClientState]) -> Iterator[str]:
    """Whether the client paused while it was muted."""
    for state in by_broker(group):
        pauses = state.row.pauses
        if pauses.connections:
            yield f"    broker {state.source.broker}, while muted: {_pauses(pauses)}"


def _pauses(pauses: Pauses) -> str:
    ahead = (
        f", and in {pauses.ahead} more there were some from before to answer first"
        if pauses.ahead
        else ""
    )
    return (
        f"requests came in {pauses.early} of {pauses.quiet + pauses.early} mutes, on"
        f" {pauses.early_connections} of {pauses.connections} connections{ahead};"
        f" {_JUDGMENTS[pauses.honors_throttling]}"
    )
