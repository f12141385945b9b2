"""The requests that clients may make about quotas, and the errors of others (KIP-546)."""

import math

import pytest

from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind, limits_of
from cluster.quotas.alteration import (
    FilterComponent,
    by_address,
    changes_of,
    entity_of,
    host_names,
    parts_of,
    selected,
    text_of,
)

ALICE = QuotaEntity("alice", None)


@pytest.mark.parametrize(
    ("parts", "entity"),
    [
        ([("user", "alice")], QuotaEntity("alice", None)),
        ([("client-id", None)], QuotaEntity(None, DEFAULT)),
        ([("client-id", "c"), ("user", None)], QuotaEntity(DEFAULT, "c")),
        ([("ip", "192.0.2.7")], QuotaEntity(None, None, "192.0.2.7")),
        ([("ip", "localhost")], QuotaEntity(None, None, "localhost")),
        ([("ip", None)], QuotaEntity(None, None, DEFAULT)),
    ],
)
def test_entities_from_their_parts_and_back(parts, entity):
    assert entity_of(parts) == entity
    assert entity_of(parts_of(entity)) == entity


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("group", "g")],
        [("ip", "127.0.0.1"), ("user", "a")],
        [("user", "a"), ("user", "b")],
        [("user", "")],
    ],
)
def test_entity_of_refuses_unknown_entities(parts):
    with pytest.raises(Refused) as refused:
        entity_of(parts)
    assert refused.value.code is ErrorCode.invalid_request


def test_text_of_is_the_stored_text_of_a_value():
    assert text_of(ALICE, "producer_byte_rate", 1_048_576.0) == "1048576"
    assert text_of(ALICE, "request_percentage", 12.5) == "12.5"
    assert changes_of(
        ALICE, [("request_percentage", 50, False), ("consumer_byte_rate", 0, True)]
    ) == {
        "request_percentage": "50.0",
        "consumer_byte_rate": None,
    }


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("producer_byte_rat", 1.0, "Invalid configuration key producer_byte_rat"),
        ("producer_byte_rate", 0.0, "must be greater than 0"),
        ("producer_byte_rate", -5.0, "must be greater than 0"),
        ("request_percentage", math.nan, "must be greater than 0"),
        ("consumer_byte_rate", math.inf, "must be greater than 0"),
        ("consumer_byte_rate", 1.5, "must be a Long value"),
        ("consumer_byte_rate", 1e30, "must be a Long value"),
        ("controller_mutation_rate", 0.0, "must be greater than 0"),
        ("connection_creation_rate", 5.0, "Invalid configuration key connection_creation_rate"),
    ],
)
def test_text_of_refuses_invalid_values(key, value, words):
    with pytest.raises(Refused, match=words) as refused:
        changes_of(ALICE, [(key, value, False)])
    assert refused.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ("connection_creation_rate", 0.5, "must be a Int value"),
        ("connection_creation_rate", 2.0**31, "must be a Int value"),
    ],
)
def test_an_address_has_one_quota(key, value, words):
    address = QuotaEntity(None, None, "::1")
    assert changes_of(address, [("connection_creation_rate", 7.0, False)]) == {
        "connection_creation_rate": "7"
    }
    with pytest.raises(Refused, match=words):
        changes_of(address, [(key, value, False)])


def test_an_address_is_written_in_one_way():
    assert entity_of([("ip", "0:0:0::1")]).ip == "::1"


def test_a_key_altered_twice_or_removed_though_unknown_is_refused():
    with pytest.raises(Refused, match="twice"):
        changes_of(ALICE, [("request_percentage", 5, False), ("request_percentage", 5, True)])
    with pytest.raises(Refused, match="Invalid configuration key"):
        changes_of(ALICE, [("nope", 0, True)])


def test_stored_configs_are_read_leniently():
    stored = {
        "producer_byte_rate": "1024",
        "request_percentage": "x",
        "consumer_byte_rate": "-1",
        "SCRAM-SHA-256": "salt",
    }
    assert limits_of(ALICE, stored) == {QuotaKind.PRODUCE: 1024.0}
    assert limits_of(QuotaEntity(None, None, DEFAULT), stored) == {}


ALL = {
    QuotaEntity("alice", None): {QuotaKind.PRODUCE: 1.0},
    QuotaEntity("alice", "app"): {QuotaKind.PRODUCE: 2.0},
    QuotaEntity(DEFAULT, "app"): {QuotaKind.PRODUCE: 3.0},
    QuotaEntity(None, "app"): {QuotaKind.PRODUCE: 4.0},
    QuotaEntity(None, DEFAULT): {QuotaKind.PRODUCE: 5.0},
    QuotaEntity("empty", None): {},
}


def limits(*components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
    chosen = selected(ALL, [FilterComponent(*each) for each in components], strict=strict)
    return [own[QuotaKind.PRODUCE] for _, own in chosen]


def test_filters_select_by_name_default_or_presence():
    assert limits() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert limits(("user", 0, "alice")) == [1.0, 2.0]
    assert limits(("user", 0, "alice"), strict=True) == [1.0]
    assert limits(("user", 1, None)) == [3.0]
    assert limits(("client-id", 2, None), strict=True) == [4.0, 5.0]
    assert limits(("client-id", 1, None)) == [5.0]
    assert limits(("user", 2, None), ("client-id", 0, "app"), strict=True) == [2.0, 3.0]
    assert limits(("ip", 2, None)) == []
    assert limits(strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("tenant", 0, "x")], ErrorCode.unsupported_version),
        ([("user", 0, "x"), ("user", 1, None)], ErrorCode.invalid_request),
        ([("user", 3, None)], ErrorCode.invalid_request),
        ([("user", 0, None)], ErrorCode.invalid_request),
        ([("user", 1, "x")], ErrorCode.invalid_request),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.invalid_request),
    ],
)
def test_selected_refuses_invalid_filters(components, code):
    with pytest.raises(Refused) as refused:
        limits(*components)
    assert refused.value.code is code


def test_a_name_limits_its_address_unless_that_has_a_limit_itself():
    def of(ip):
        return QuotaEntity(None, None, ip)

    quotas = {
        of("a.example"): {QuotaKind.CONNECTION: 1.0},
        of("b.example"): {QuotaKind.CONNECTION: 2.0},
        of("gone.example"): {QuotaKind.CONNECTION: 3.0},
        of("192.0.2.2"): {QuotaKind.CONNECTION: 4.0},
        of(DEFAULT): {QuotaKind.CONNECTION: 5.0},
        ALICE: {QuotaKind.PRODUCE: 6.0},
    }
    assert host_names(quotas) == {"a.example", "b.example", "gone.example"}
    addresses = {"a.example": "192.0.2.1", "b.example": "192.0.2.2", "gone.example": None}
    assert by_address(quotas, addresses) == {
        of("192.0.2.1"): {QuotaKind.CONNECTION: 1.0},
        of("192.0.2.2"): {QuotaKind.CONNECTION: 4.0},
        of(DEFAULT): {QuotaKind.CONNECTION: 5.0},
        ALICE: {QuotaKind.PRODUCE: 6.0},
    }
