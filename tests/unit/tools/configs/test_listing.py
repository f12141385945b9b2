"""The layout of `configs --describe`, character by character."""

from dataclasses import replace

from cluster.tools.configs.listing import (
    ConfigEntry,
    ListedSynonym,
    lines,
    selected,
)

DEFAULT = ListedSynonym("DEFAULT_CONFIG", "log.retention.ms", "604800000")


def entry(name: str, value: str | None, source: str, *synonyms: ListedSynonym) -> ConfigEntry:
    return ConfigEntry(
        name, value, source, is_sensitive=value is None, is_read_only=False, synonyms=synonyms
    )


RETENTION = entry(
    "retention.ms",
    "60000",
    "DYNAMIC_TOPIC_CONFIG",
    ListedSynonym("DYNAMIC_TOPIC_CONFIG", "retention.ms", "60000"),
    DEFAULT,
)
CLEANUP = entry("cleanup.policy", "delete", "DEFAULT_CONFIG")


def test_a_listing_is_kafkas():
    assert list(lines("topics", "orders", [RETENTION], every=False)) == [
        "Dynamic configs for topic orders are:",
        "  retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000,"
        " DEFAULT_CONFIG:log.retention.ms=604800000}",
    ]
    assert list(lines("brokers", "0", [], every=True)) == ["All configs for broker 0 are:"]


def test_a_value_that_is_not_told_is_null():
    secret = entry("password", None, "STATIC_BROKER_CONFIG")
    assert str(secret) == "password=null sensitive=true synonyms={}"


def test_all_are_shown_by_name_or_only_those_set_for_the_entity():
    assert selected("topics", "orders", [RETENTION, CLEANUP], every=True) == [CLEANUP, RETENTION]
    assert selected("topics", "orders", [RETENTION, CLEANUP], every=False) == [RETENTION]
    assert selected("brokers", "0", [RETENTION, CLEANUP], every=False) == []


def test_a_setting_that_does_nothing_says_so_at_the_end_of_its_line():
    remarked = replace(CLEANUP, remark="accepted, without effect yet: no")
    assert str(remarked) == (
        "cleanup.policy=delete sensitive=false synonyms={} (accepted, without effect yet: no)"
    )
    assert remarked.as_json()["remark"] == "accepted, without effect yet: no"
    assert CLEANUP.as_json()["remark"] is None


def test_json_keeps_what_the_text_says():
    assert RETENTION.as_json()["synonyms"][1] == {
        "source": "DEFAULT_CONFIG",
        "name": "log.retention.ms",
        "value": "604800000",
    }
