"""docs/metrics.md names every metric and every field of a record."""

import json
from pathlib import Path

from cluster.brokers.metrics.records import (
    GroupFigures,
    LatencyFigures,
    PartitionLag,
    TopicFigures,
    broker_record,
    event_record,
    group_record,
    lag_records,
    latency_record,
    quota_record,
    topic_record,
)
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.events import Event, EventKind
from cluster.metrics.kafka_names import REQUEST_METRICS, REQUEST_PARTS, TOPIC_METRICS
from cluster.model.clocks import WallMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import RULES, QuotaKind

TEXT = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()


def test_documentation_has_a_row_for_every_metric():
    metrics = [(f"`{metric.key}`", metric) for metric in BROKER_METRICS + TOPIC_METRICS]
    metrics += [("-", metric) for metric in REQUEST_METRICS]
    rows = [
        f"| {key} | `{m.name}` | {m.kind.name.lower()} | {m.unit} | {m.doc} |" for key, m in metrics
    ]
    rows += [f"| `{part.key}` | `{part.name}` | {part.doc} |" for part in REQUEST_PARTS]
    assert [row for row in rows if row not in TEXT] == []


def test_documentation_describes_every_field():
    records = (
        quota_record(0, WallMs(0), 0, QuotaUsage(quota=QuotaKind.FETCH, user="u", client_id="c")),
        broker_record(0, WallMs(0), 0, {}),
        group_record(0, WallMs(0), 0, GroupFigures("g", "", "", "", 0, 0, 0, 0, 0, 0, {})),
        *lag_records(0, WallMs(0), 0, "g", "t", [PartitionLag(0, 0, 0)]),
        topic_record(0, WallMs(0), 0, TopicFigures("t", *[0] * 10)),
        latency_record(0, WallMs(0), 0, LatencyFigures("Produce", 0, 0, [])),
        event_record(0, WallMs(0), 0, Event(EventKind.QUOTA, "s", "d", 1)),
    )
    fields = {field for record in records for field in json.loads(record.value)}
    kinds = [f"Kind `{json.loads(record.value)['kind']}`" for record in records]
    assert [kind for kind in kinds if kind not in TEXT] == []
    names = (*fields, *RULES, *EventKind)
    assert [name for name in names if f"`{name}`" not in TEXT] == []
