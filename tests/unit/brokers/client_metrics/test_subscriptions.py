"""Subscriptions to clients' metrics: their settings, and which clients they select."""

from uuid import UUID

import pytest

from cluster.brokers.client_metrics.subscriptions import Wanted, subscription_of, wanted_of
from cluster.model.errors import ErrorCode, Refused

ID = UUID(int=1 << 127 | 5)


def wanted(facts, *subscriptions):
    return wanted_of(ID, facts, [subscription_of(each) for each in subscriptions])


def test_a_client_is_asked_for_what_all_its_subscriptions_ask():
    facts = {"client_id": "billing-1", "client_software_name": "librdkafka"}
    found = wanted(
        facts,
        {"metrics": "b.,a", "interval.ms": "5000", "match": "client_id=billing.*"},
        {"metrics": "c", "interval.ms": "9000"},
        {"metrics": "d", "interval.ms": "100", "match": "client_id=billing"},
        {"metrics": "*", "match": "client_id=b.*,client_software_name=apache.*"},
    )
    assert (found.metrics, found.interval_ms) == (("a", "b.", "c"), 5_000)
    assert wanted(facts, {"metrics": "a,*"}).metrics == ("*",)
    assert wanted(facts) == Wanted((), 300_000, wanted(facts).subscription_id)


def test_an_expression_on_a_fact_that_is_unknown_matches_only_nothing():
    assert wanted({}, {"metrics": "a", "match": "client_id="}).metrics == ("a",)
    assert wanted({}, {"metrics": "a", "match": "client_id=.+"}).metrics == ()


def test_subscription_ids_differ_by_client_metrics_and_interval():
    # CRC-32C of Java's text of the set and of the interval, XOR the hash of the id.
    ids = {
        wanted_of(client, {}, [subscription_of({"metrics": name, "interval.ms": interval})])
        for client in (ID, UUID(int=7 << 64))
        for name in ("a", "b")
        for interval in ("100", "200")
    }
    assert len({each.subscription_id for each in ids}) == 8
    assert all(-(2**31) <= each.subscription_id < 2**31 for each in ids)


@pytest.mark.parametrize(
    ("texts", "code", "message"),
    [
        ({"metric": "a"}, "invalid_request", "Unknown client metrics configuration: metric"),
        ({"interval.ms": "99"}, "invalid_request", "100"),
        ({"interval.ms": "3600001"}, "invalid_request", "3600000"),
        ({"interval.ms": "soon"}, "invalid_config", "interval.ms"),
        ({"match": "client_id"}, "invalid_config", "Illegal client matching pattern: client_id"),
        ({"match": "client_id=a=b"}, "invalid_config", "Illegal client matching pattern"),
        ({"match": "user=a"}, "invalid_config", "Illegal client matching pattern"),
        ({"match": "client_id=("}, "invalid_config", "Illegal client matching pattern"),
    ],
)
def test_bad_settings_are_refused(texts, code, message):
    with pytest.raises(Refused) as refused:
        subscription_of(texts)
    assert refused.value.code is ErrorCode[code]
    assert message in (refused.value.detail or "")
