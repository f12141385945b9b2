"""The Prometheus series of metrics that clients pushed, a bounded number of them.

Names and attributes come from foreign programs: names become a label of two families, so that no
client can make a family of its own, and attributes become the labels of a fixed list.
"""

import re
from collections.abc import Iterable
from typing import Final

from cluster.dashboard.exposition_text import label_text
from cluster.dashboard.families import PUSHED_COUNTER, PUSHED_GAUGE, PUSHED_LEFT_OUT, Families
from cluster.protocol.peer.pushed_metrics import PushedLabel, PushedMetricsAnswer
from cluster.views.pushed_latencies import latest_clients

SERIES_MAX: Final = 5_000
"""Series in one answer: those of the clients that pushed last."""
_LABELS: Final = {"node_id": "node", "node.id": "node", "topic": "topic", "partition": "partition"}
"""Attributes with a label of their own, by their names; all others share one."""
_NODE: Final = re.compile(r"node-(-?\d+)")
"""Java's clients name nodes so, librdkafka by the number alone."""


def add_pushed(families: Families, answers: Iterable[PushedMetricsAnswer]) -> None:
    """Add the values of all clients that are not closed."""
    answers = list(answers)
    broker_of = {
        (client.client_instance_id, client.ts_ms): answer.broker
        for answer in answers
        for client in answer.clients
    }
    left_out = sum(answer.clients_left_out for answer in answers)
    room = SERIES_MAX
    for client in latest_clients(answers):
        if client.is_closed:
            continue
        if len(client.values) > room:
            left_out += 1
            continue
        room -= len(client.values)
        broker = broker_of[client.client_instance_id, client.ts_ms]
        group = next((each.value for each in client.labels if each.key == "group_id"), None)
        head = [
            ("broker", str(broker)),
            ("client_id", client.client_id),
            ("client_instance_id", client.client_instance_id),
            *([] if group is None else [("group_id", group)]),
        ]
        for value in client.values:
            labels = label_text([*head, ("metric", value.name), *_attributes(value.labels)])
            families.add(PUSHED_COUNTER if value.is_counter else PUSHED_GAUGE, labels, value.value)
    families.add(PUSHED_LEFT_OUT, "", left_out)


def _attributes(labels: Iterable[PushedLabel]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    others = []
    for key, value in labels:
        name = _LABELS.get(key)
        if name is None or name in found:
            others.append(f"{key}={value}")
        elif name == "node" and (java := _NODE.fullmatch(value)):
            found[name] = java[1]
        else:
            found[name] = value
    if others:
        found["attributes"] = ",".join(others)
    return list(found.items())
