"""Quotas that are set, changed or removed are events, noted by one broker."""

from cluster.brokers.throttling.quota_events import quota_noter, subject_of
from cluster.metrics.events import Event, EventKind, EventLog
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind

ALICE = QuotaEntity("alice", None)


def test_each_change_of_an_entity_is_an_event():
    events = EventLog()
    note = quota_noter(events, lambda: True)
    note(ALICE, {}, {QuotaKind.PRODUCE: 1_048_576.0, QuotaKind.REQUEST: 12.5})
    note(
        ALICE,
        {QuotaKind.PRODUCE: 1_048_576.0, QuotaKind.REQUEST: 12.5},
        {QuotaKind.REQUEST: 12.5, QuotaKind.MUTATION: 1.0},
    )
    assert events.take() == [
        Event(
            EventKind.QUOTA,
            "user alice",
            "producer_byte_rate=1048576, request_percentage=12.5",
            2,
        ),
        Event(
            EventKind.QUOTA,
            "user alice",
            "producer_byte_rate removed, controller_mutation_rate=1",
            2,
        ),
    ]


def test_only_one_broker_notes_quota_events():
    events = EventLog()
    quota_noter(events, lambda: False)(ALICE, {}, {QuotaKind.PRODUCE: 1.0})
    assert events.take() == []


def test_an_entity_is_named_as_quotas_list_shows_it():
    assert subject_of(QuotaEntity("alice", DEFAULT)) == "user alice, client-id <default>"
    assert subject_of(QuotaEntity(None, "a\nb")) == "client-id a\\nb"
    assert subject_of(QuotaEntity(None, None, "10.0.0.1")) == "ip 10.0.0.1"
