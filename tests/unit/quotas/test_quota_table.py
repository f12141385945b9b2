"""The eight levels of precedence, and the clients that share a budget."""

from itertools import combinations

import pytest

from cluster.model.kept_names import kept_name
from cluster.model.quotas import DEFAULT, RULES, QuotaEntity, QuotaKind
from cluster.quotas.quota_table import QuotaTable, Resolved

LEVELS = [
    (QuotaEntity("alice", "app"), ("alice", "app")),
    (QuotaEntity("alice", DEFAULT), ("alice", "app")),
    (QuotaEntity("alice", None), ("alice", None)),
    (QuotaEntity(DEFAULT, "app"), ("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), ("alice", "app")),
    (QuotaEntity(DEFAULT, None), ("alice", None)),
    (QuotaEntity(None, "app"), (None, "app")),
    (QuotaEntity(None, DEFAULT), (None, "app")),
]


def table_with(*entities: QuotaEntity) -> QuotaTable:
    table = QuotaTable()
    for number, entity in enumerate(entities, start=1):
        table.set(entity, QuotaKind.PRODUCE, float(number))
    return table


def test_quota_of_a_long_client_id_applies_and_keeps_its_name():
    long, other = "x" * 32_000, "x" * 31_999 + "y"
    table = table_with(QuotaEntity(None, long), QuotaEntity("alice", DEFAULT))
    resolved = table.resolve(QuotaKind.PRODUCE, "bob", kept_name(long))
    assert (resolved.rule, resolved.limit) == ("client", 1.0)
    assert table.resolve(QuotaKind.PRODUCE, "bob", kept_name(other)).rule is None
    assert set(table.snapshot()) == {QuotaEntity(None, long), QuotaEntity("alice", DEFAULT)}
    table.set(QuotaEntity(None, long), QuotaKind.PRODUCE, None)
    assert table.resolve(QuotaKind.PRODUCE, "bob", kept_name(long)).rule is None


def test_table_has_kafkas_levels_in_kafkas_order():
    assert tuple(entity.rule for entity, _ in LEVELS) == RULES


@pytest.mark.parametrize(("entity", "tags"), LEVELS, ids=RULES)
def test_each_level_matches_alone_and_names_who_shares_it(entity, tags):
    resolved = table_with(entity).resolve(QuotaKind.PRODUCE, "alice", "app")
    assert resolved == Resolved(entity.rule, 1.0, *tags)


def test_most_specific_level_applies():
    for count in range(1, len(LEVELS) + 1):
        for chosen in combinations(LEVELS, count):
            entities = [entity for entity, _ in chosen]
            # Set in the opposite order, which must not matter.
            resolved = table_with(*reversed(entities)).resolve(QuotaKind.PRODUCE, "alice", "app")
            assert resolved.rule == entities[0].rule
            assert (resolved.user_tag, resolved.client_tag) == chosen[0][1]


def test_quotas_of_others_do_not_match():
    table = table_with(
        QuotaEntity("bob", None), QuotaEntity(None, "other"), QuotaEntity("bob", "app")
    )
    nothing = Resolved(None, None, "alice", "app")
    assert table.resolve(QuotaKind.PRODUCE, "alice", "app") == nothing


def test_kinds_of_quotas_are_resolved_separately():
    table = QuotaTable()
    table.set(QuotaEntity("alice", "app"), QuotaKind.FETCH, 5.0)
    table.set(QuotaEntity(None, DEFAULT), QuotaKind.PRODUCE, 7.0)
    assert table.resolve(QuotaKind.PRODUCE, "alice", "app").rule == "default-client"
    assert table.resolve(QuotaKind.FETCH, "alice", "app").rule == "user+client"
    assert table.resolve(QuotaKind.REQUEST, "alice", "app").rule is None


def test_a_limit_can_be_removed_and_all_of_them_replaced():
    table = table_with(LEVELS[0][0], LEVELS[7][0])
    table.set(LEVELS[0][0], QuotaKind.PRODUCE, None)
    assert table.resolve(QuotaKind.PRODUCE, "alice", "app").rule == "default-client"
    table.replace({QuotaEntity("alice", None): {QuotaKind.FETCH: 3.0}})
    assert table.resolve(QuotaKind.PRODUCE, "alice", "app").limit is None
    assert table.snapshot() == {QuotaEntity("alice", None): {QuotaKind.FETCH: 3.0}}


def test_a_client_without_an_id_does_not_escape_the_default():
    table = table_with(QuotaEntity(None, DEFAULT))
    assert table.resolve(QuotaKind.PRODUCE, "ANONYMOUS", "").limit == 1.0


def test_a_client_called_default_is_not_the_default():
    table = table_with(QuotaEntity(None, "<default>"))
    assert table.resolve(QuotaKind.PRODUCE, "alice", "app").limit is None
    assert table.resolve(QuotaKind.PRODUCE, "alice", "<default>").limit == 1.0
