"""Handling of a frame up to its answer, and what a connection remembers of its requests."""

from types import SimpleNamespace

import pytest

from cluster.model.kept_names import kept_name
from cluster.model.quotas import QuotaEntity, QuotaKind
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import fetch_request, produce_request, request

API_VERSIONS = 18
UNKNOWN_VERSION = 30_000


@pytest.fixture
def stage(tmp_path):
    with HandlerStage(tmp_path) as one:
        one.update(a_topic("t", a_partition([BROKER])))
        yield one


def test_another_client_id_on_the_same_connection_is_charged_to_its_own_account(stage):
    connection = stage.connect()
    for client_id in ("first", "second", "first"):
        connection.client_id = client_id
        connection.call(fetch_request("t", 0))
    used = {usage.client_id: usage.requests for usage, _ in stage.quotas.drain_interval(0)}
    assert used == {"first": 2, "second": 1}


def test_quota_of_a_long_client_id_is_enforced_although_the_id_is_not_cached(stage):
    connection = stage.connect()
    connection.client_id = "x" * 32_000
    stage.quotas.replace_quotas(
        {QuotaEntity(None, connection.client_id): {QuotaKind.PRODUCE: 100.0}}
    )
    answer = connection.call(produce_request("t", a_batch(b"x" * 1_000)))
    assert answer.throttle_time.total_seconds() > 1
    names = {usage.client_id for usage, _ in stage.quotas.drain_interval(0)}
    assert names == {kept_name(connection.client_id)}


def test_a_client_is_not_recorded_before_its_login(stage):
    connection = stage.connect()
    connection.login = SimpleNamespace(on_frame=lambda _channel, _frame: False)
    message = request(API_VERSIONS, 3, client_software_name="x", client_software_version="1")
    for number in range(10):
        connection.client_id = f"{number}" * 32_000
        connection.payer.owed_ns = 1_000_000
        assert connection.call(message).error_code == 0
    assert stage.quotas.held_bytes == 0
    assert stage.quotas.active_count == 0
    assert list(stage.core.limits.connected.take_changed()) == []
    assert connection.payer.on_closed is None
    assert stage.loop.time.exempt.owed_ns >= 10_000_000


def test_unsupported_versions_are_answered_but_not_cached(stage):
    connection = stage.connect()
    message = request(API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    for version in range(UNKNOWN_VERSION, UNKNOWN_VERSION + 100):
        connection.send(message, version=version)
        connection.take_frame()
    assert connection.routes == {}


def test_a_throttled_fetch_is_charged_nothing_and_sent_without_records(stage):
    connection = stage.connect()
    connection.call(produce_request("t", a_batch(b"x" * 1_000)))
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.FETCH: 1_500.0}})
    first, second = (connection.call(fetch_request("t", 0)) for _ in range(2))
    assert first.throttle_time.total_seconds() == 0
    assert second.throttle_time.total_seconds() > 0
    assert second.responses == ()
    state = stage.quotas.state_of(QuotaKind.FETCH, "ANONYMOUS", "wire", 0)
    assert state is not None
    assert 1_000 < state.rate < 1_500


def test_batch_larger_than_one_second_of_quota_is_sent_and_throttled_accordingly(stage):
    connection = stage.connect()
    connection.call(produce_request("t", a_batch(b"x" * 1_000)))
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.FETCH: 100.0}})
    first, second = (connection.call(fetch_request("t", 0)) for _ in range(2))
    assert len(first.responses[0].partitions[0].records) > 1_000
    assert first.throttle_time.total_seconds() > 9
    assert second.responses == ()


def test_request_is_charged_with_the_connections_unpaid_time(stage):
    connection = stage.connect()
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.REQUEST: 10.0}})
    connection.payer.owed_ns = 200_000_900
    answer = connection.call(fetch_request("t", 0))
    assert answer.throttle_time.total_seconds() == pytest.approx(1.0)  # 20 % x s, a window at most
    assert connection.payer.owed_ns == 900
    state = stage.quotas.state_of(QuotaKind.REQUEST, "ANONYMOUS", "wire", stage.loop.now_ms)
    assert state.rate == pytest.approx(20.0)


def test_a_client_is_charged_when_it_reconnects_for_each_request(stage):
    connection = stage.connect()
    connection.call(fetch_request("t", 0))
    connection.payer.on_closed(300_000_000)
    state = stage.quotas.state_of(QuotaKind.REQUEST, "ANONYMOUS", "wire", stage.loop.now_ms)
    assert state.rate == pytest.approx(30.0)
