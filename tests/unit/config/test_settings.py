import pytest

from cluster.config import broker, topic
from cluster.config.settings import (
    broker_settings,
    parse_override,
    topic_settings,
)
from cluster.model.errors import ErrorCode, Refused, UserError

HOUR_MS = 3_600_000


def test_without_any_text_every_value_is_its_default():
    settings = broker_settings({})
    assert settings[broker.LOG_SEGMENT_BYTES] == 1 << 30
    assert settings[broker.BROKER_RACK] is None
    assert [str(listener) for listener in settings[broker.LISTENERS]] == [
        "PLAINTEXT://127.0.0.1:9092"
    ]


def test_an_alias_is_converted_to_the_settings_own_unit():
    assert broker_settings({"log.retention.hours": "2"})[broker.LOG_RETENTION_MS] == 2 * HOUR_MS
    assert broker_settings({"log.retention.hours": "-1"})[broker.LOG_RETENTION_MS] == -1


def test_the_finest_unit_wins_whatever_the_order():
    settings = broker_settings({"log.retention.hours": "2", "log.retention.minutes": "1"})
    assert settings[broker.LOG_RETENTION_MS] == 60_000


def test_overridden_value_must_be_valid_too():
    with pytest.raises(UserError, match=r"log\.retention\.hours=soon"):
        broker_settings({"log.retention.hours": "soon", "log.retention.ms": "1"})


def test_a_topic_follows_its_broker_unless_it_has_its_own_value():
    settings = broker_settings({"log.retention.hours": "2", "log.segment.bytes": "1000"})
    own = topic_settings(settings, {"segment.bytes": "500"})
    assert own[topic.RETENTION_MS] == 2 * HOUR_MS
    assert own[topic.SEGMENT_BYTES] == 500


def test_an_unknown_key_is_answered_with_the_closest_one():
    with pytest.raises(UserError, match=r"log\.segmnt\.bytes; did you mean log\.segment\.bytes\?"):
        broker_settings({"log.segmnt.bytes": "1"})
    with pytest.raises(Refused, match=r"retention\.mss; did you mean retention\.ms") as refused:
        topic_settings(broker_settings({}), {"retention.mss": "1"})
    assert refused.value.code is ErrorCode.invalid_config


def test_a_refusal_names_key_value_and_range():
    with pytest.raises(Refused) as refused:
        topic_settings(broker_settings({}), {"cleanup.policy": "shred"})
    assert refused.value.detail == (
        "cleanup.policy=shred is not valid: it must be a comma-separated list of delete or compact,"
        " possibly empty"
    )


def test_a_mistake_is_reported_with_the_place_where_it_was_written():
    places = {"log.segmnt.bytes": "a.properties, line 3", "num.partitions": "a.properties, line 7"}
    with pytest.raises(UserError, match=r"^a\.properties, line 3: Unknown broker setting"):
        broker_settings({"log.segmnt.bytes": "1"}, places)
    with pytest.raises(UserError, match=r"^a\.properties, line 7: num\.partitions=x is not"):
        broker_settings({"num.partitions": "x"}, places)


def test_an_override_is_key_and_value():
    assert parse_override("a=b=c") == ("a", "b=c")
    with pytest.raises(UserError, match="key=value"):
        parse_override("a")
