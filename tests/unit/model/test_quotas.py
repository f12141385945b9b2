"""The precedence of quotas is Kafka's."""

from cluster.model.quotas import DEFAULT, RULES, QuotaEntity, entities_for


def test_rules_are_in_kafkas_order():
    assert RULES == (
        "user+client",
        "user+default-client",
        "user",
        "default-user+client",
        "default-user+default-client",
        "default-user",
        "client",
        "default-client",
    )


def test_entities_of_a_client_are_in_the_order_of_the_rules():
    found = entities_for("alice", "app")
    assert tuple(entity.rule for entity in found) == RULES
    assert found[0] == QuotaEntity("alice", "app")
    assert found[-1] == QuotaEntity(None, DEFAULT)
