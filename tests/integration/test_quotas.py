"""Quotas on a live cluster: clients are throttled even if they ignore the throttle time.

Every test has client ids of its own, so that limits do not affect other tests.
"""

import json
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cluster.client.quota_requests import alter_quotas, describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.datadir.paths import DataDir
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import read_stats
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind
from cluster.protocol.api import ApiKey
from cluster.quotas.alteration import FilterComponent
from cluster.views.client_states import client_states, read_brokers
from tests.support.client_quotas import KIB, NamedClient, a_client_id, batch, limited, set_quota
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    fetch_request,
    frame_of,
    metadata_request,
    produce_request,
    request,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader
from tests.support.waiting import wait_until


def throttle_ms(answer: object) -> int:
    return round(answer.throttle_time.total_seconds() * 1_000)  # type: ignore[attr-defined]


# -- the wire ------------------------------------------------------------------------------------


def test_a_throttled_producer_is_answered_at_once_and_read_later(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with (
        limited(cluster, client_id, producer_byte_rate=50 * KIB),
        NamedClient(cluster.addresses[leader(cluster, topic)], client_id) as client,
    ):
        # A second's worth at once; what is larger is taken as well, and waited for.
        assert throttle_ms(client.call(produce_request(topic, batch(40 * KIB)))) == 0
        began = time.monotonic()
        answer = client.call(produce_request(topic, batch(160 * KIB)))
        took = time.monotonic() - began
        delay_ms = throttle_ms(answer)
        assert 0 < delay_ms <= 3_100  # four seconds' worth, at least one second has passed
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert took < delay_ms / 1_000
        client.call(metadata_request())
        assert time.monotonic() - began >= delay_ms / 1_000


def test_stats_file_says_which_clients_obey_throttle_times(cluster):
    topic = create_topic(cluster)
    address = cluster.addresses[leader(cluster, topic)]
    software = {"client_software_name": "patient", "client_software_version": "1.0"}
    who = {True: a_client_id(), False: a_client_id()}
    for pauses, client_id in who.items():
        with (
            limited(cluster, client_id, producer_byte_rate=100 * KIB),
            NamedClient(address, client_id) as client,
        ):
            client.call(request(18, 3, **software))
            client.call(produce_request(topic, batch(100 * KIB)))
            for _ in range(14):
                delay_ms = throttle_ms(client.call(produce_request(topic, batch(10 * KIB))))
                if pauses:
                    time.sleep(delay_ms / 1_000 + 0.01)

            def row(client_id: str = client_id) -> QuotaRow:
                (found,) = [
                    state.row
                    for state in client_states(read_brokers(DataDir(cluster.data_dir)))
                    if (state.row.client_id, state.row.quota) == (client_id, "produce")
                ]
                return found

            wait_until(lambda: sum(row().pauses[:2]) > 12, "the mutes of the client")
            assert row().pauses.honors_throttling is pauses
            assert (row().connections, row().software) == (1, "patient 1.0")
        wait_until(lambda: row().connections == 0, "the end of its connection")


def test_a_throttled_fetch_is_empty_and_its_bytes_come_later(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with WireClient(cluster.addresses[leader(cluster, topic)]) as producer:
        for size in (10 * KIB, 18 * KIB):
            producer.call(produce_request(topic, batch(size)))
    with (
        limited(cluster, client_id, consumer_byte_rate=20 * KIB),
        NamedClient(cluster.addresses[leader(cluster, topic)], client_id) as client,
    ):
        # A second's worth may be had at once.
        answer = client.call(fetch_request(topic, 0, max_bytes=KIB))
        assert throttle_ms(answer) == 0
        assert len(answer.responses[0].partitions[0].records) > 10 * KIB
        began = time.monotonic()
        empty = client.call(fetch_request(topic, 1, max_bytes=KIB))
        took = time.monotonic() - began
        delay_ms = throttle_ms(empty)
        assert 0 < delay_ms <= 600
        assert empty.error_code == 0
        assert empty.responses == ()
        assert took < delay_ms / 1_000

        def fetched() -> bool:
            return bool(client.call(fetch_request(topic, 1, max_bytes=KIB)).responses)

        wait_until(fetched, "the second batch")
        assert time.monotonic() - began >= delay_ms / 1_000


def test_a_producer_without_acknowledgments_is_held_back_too(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with (
        limited(cluster, client_id, producer_byte_rate=60 * KIB),
        NamedClient(cluster.addresses[leader(cluster, topic)], client_id) as client,
    ):
        began = time.monotonic()
        for _ in range(2):
            client.send_bytes(
                frame_of(produce_request(topic, batch(60 * KIB), acks=0), 1, client_id)
            )
        client.call(metadata_request())
        assert time.monotonic() - began > 0.8


def test_answers_stay_in_order_when_requests_are_sent_ahead(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with (
        limited(cluster, client_id, producer_byte_rate=60 * KIB),
        NamedClient(cluster.addresses[leader(cluster, topic)], client_id) as client,
    ):
        for _ in range(6):
            client.send(produce_request(topic, batch(45 * KIB)))
            client.send(metadata_request(topic))
        delays = [(throttle_ms(client.receive()), throttle_ms(client.receive())) for _ in range(6)]
    assert any(first > 0 for first, _ in delays)
    assert all(second == 0 for _, second in delays)


def test_requests_that_overtake_others_do_not_exceed_a_quota(cluster):
    """Produce requests with acks=all are handled before earlier ones are answered."""
    client_id, topic = a_client_id(), create_topic(cluster)
    with (
        limited(cluster, client_id, producer_byte_rate=50 * KIB),
        NamedClient(cluster.addresses[leader(cluster, topic)], client_id) as client,
    ):
        began = time.monotonic()
        client.send_bytes(
            b"".join(client.frame(produce_request(topic, batch(20 * KIB))) for _ in range(20))
        )
        delays = [throttle_ms(client.receive()) for _ in range(8)]
        took = time.monotonic() - began
    assert any(delays)
    assert took > 1.6  # 160 KiB are worth 3.2 s: a second's worth at once, and one request more


@pytest.mark.parametrize("version", [0, 3, 8, 9, 12])
def test_every_version_of_an_answer_may_tell_a_throttle_time(cluster, version):
    client_id = a_client_id()
    with (
        limited(cluster, client_id, request_percentage=0.0001),
        NamedClient(cluster.addresses[0], client_id) as client,
    ):
        if version < 3:
            assert not hasattr(client.call(metadata_request(version=version)), "throttle_time")
            return
        # The thread's time is charged with a later request.
        told_ms = wait_until(
            lambda: throttle_ms(client.call(metadata_request(version=version))),
            "a throttle time",
        )
        assert 0 < told_ms <= 1_000


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_may_tell_a_throttle_time(cluster, version):
    client_id = a_client_id()
    asked = request(18, version, client_software_name="x", client_software_version="1")
    with (
        limited(cluster, client_id, request_percentage=0.0001),
        NamedClient(cluster.addresses[0], client_id) as client,
    ):
        if version >= 1:
            # The thread's time is charged with a later request.
            told_ms = wait_until(lambda: throttle_ms(client.call(asked)), "a throttle time")
            assert 0 < told_ms <= 1_000
        answer = client.call(asked)
    assert answer.error_code == 0
    assert any(each.api_key == 49 for each in answer.api_keys)


# -- one change, all brokers -----------------------------------------------------------------------


def test_a_change_holds_on_every_broker_at_once_and_lifting_it_too(cluster):
    client_id = a_client_id()
    clients = [NamedClient(address, client_id) for address in cluster.addresses]

    def is_throttled(client: WireClient) -> bool:
        return throttle_ms(client.call(metadata_request())) > 0

    with limited(cluster, client_id, request_percentage=0.0001):
        for client in clients:
            wait_until(partial(is_throttled, client), "a throttled client")
    for client in clients:
        assert not is_throttled(client)
        client.close()


def test_quota_set_at_one_broker_is_described_by_others_and_survives_a_restart(cluster):
    entity = QuotaEntity("alice b/c", DEFAULT)
    set_quota(cluster, entity, broker=0, producer_byte_rate=5.0, request_percentage=12.5)
    with SocketClient.connect([cluster.addresses[1]], "test") as client:
        named = [FilterComponent("user", 0, "alice b/c"), FilterComponent("client-id", 1, None)]
        told = describe_quotas(client, named, strict=True)
    assert told == {entity: {"producer_byte_rate": 5.0, "request_percentage": 12.5}}
    set_quota(cluster, entity, broker=2, producer_byte_rate=None, request_percentage=None)
    client_id = a_client_id()
    with limited(cluster, client_id, request_percentage=0.0001):
        cluster.restart(1)
        with NamedClient(cluster.addresses[1], client_id) as client:
            wait_until(
                lambda: throttle_ms(client.call(metadata_request())) > 0, "a throttled client"
            )


def test_quotas_are_stored_where_and_as_kafka_stores_them(cluster):
    entity = QuotaEntity("a b/c", DEFAULT)
    zookeeper = KazooClient(hosts=cluster.state()["registry"])
    zookeeper.start()
    try:
        set_quota(cluster, entity, consumer_byte_rate=2048.0, request_percentage=50.0)
        document, _ = zookeeper.get("/config/users/a%20b%2Fc/clients/<default>")
        assert json.loads(document) == {
            "version": 1,
            "config": {"consumer_byte_rate": "2048", "request_percentage": "50.0"},
        }
        newest = max(zookeeper.get_children("/config/changes"))
        document, _ = zookeeper.get(f"/config/changes/{newest}")
        assert json.loads(document) == {
            "version": 2,
            "entity_path": "users/a%20b%2Fc/clients/<default>",
        }
    finally:
        set_quota(cluster, entity, consumer_byte_rate=None, request_percentage=None)
        zookeeper.stop()
        zookeeper.close()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"producer_byte_rat": 1.0}, "Invalid configuration key"),
        ({"producer_byte_rate": -1.0}, "must be greater than 0"),
        ({"producer_byte_rate": 1.5}, "must be a Long value"),
        ({"connection_creation_rate": 1.0}, "Invalid configuration key"),
    ],
)
def test_bad_quotas_are_refused_with_a_reason(cluster, limits, words):
    with pytest.raises(Refused, match=words) as refused:
        set_quota(cluster, QuotaEntity(None, a_client_id()), **limits)
    assert refused.value.code is ErrorCode.invalid_request


def test_clients_without_a_limit_are_not_throttled_and_lifting_one_resumes_its_client(cluster):
    noisy, quiet, topic = a_client_id(), a_client_id(), create_topic(cluster)
    address = cluster.addresses[leader(cluster, topic)]
    with (
        limited(cluster, noisy, producer_byte_rate=5 * KIB),
        NamedClient(address, noisy) as loud,
        NamedClient(address, quiet) as other,
    ):
        loud.send(produce_request(topic, batch(300 * KIB)))
        assert throttle_ms(loud.receive()) > 50_000
        done = threading.Event()
        waiter = threading.Thread(
            target=lambda: (loud.call(metadata_request()), done.set()), daemon=True
        )
        waiter.start()
        for _ in range(20):
            assert throttle_ms(other.call(produce_request(topic, batch(10 * KIB)))) == 0
        assert not done.is_set()
        set_quota(cluster, QuotaEntity(None, noisy), producer_byte_rate=1e9)
        assert done.wait(30.0)
        waiter.join()


# -- request time (KIP-124) ------------------------------------------------------------------------


def thread_seconds(cluster: Cluster, broker: int) -> float:
    """What the kernel says that a broker's own thread has worked."""
    pid = cluster.pid(broker)
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text("ascii").split()[0]) / 1e9


def told_seconds(cluster: Cluster, broker: int) -> tuple[float, float, float]:
    """How busy it says it was, what it charged to clients, and what to nobody."""
    stats = read_stats(DataDir(cluster.data_dir).run / f"broker-{broker}.stats")
    charged = sum(row.usage / 100 for row in stats.rows if row.quota == QuotaKind.REQUEST)
    busy, exempt = (
        stats.values[BY_KEY[key].name] / 1e6 for key in ("BusyTimeUs", "ExemptRequestTimeUs")
    )
    return busy, charged, exempt


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="times of threads: Linux")
def test_charged_and_exempt_time_add_up_to_the_cpu_time_of_the_thread(cluster):
    topic = create_topic(cluster)
    broker = leader(cluster, topic)
    quiet = create_topic(cluster, assignments=[[broker]])
    client_id, waiting_id = a_client_id(), a_client_id()
    frame = frame_of(produce_request(topic, batch(100)), 1, client_id)
    address = cluster.addresses[broker]
    with NamedClient(address, client_id) as client, NamedClient(address, waiting_id) as waiting:
        waiting.send(fetch_request(quiet, 0, max_wait_ms=60_000))
        began_s, before = thread_seconds(cluster, broker), told_seconds(cluster, broker)
        while thread_seconds(cluster, broker) - began_s < 1.0:
            for _ in range(100):
                client.send_bytes(frame)
                client.receive_bytes(int.from_bytes(client.receive_bytes(4), "big"))

        def is_accounted_for() -> bool:
            worked = thread_seconds(cluster, broker) - began_s
            busy, charged, exempt = (
                now - then for now, then in zip(told_seconds(cluster, broker), before, strict=True)
            )
            return (
                abs(busy - worked) < 0.1 * worked and abs(charged + exempt - worked) < 0.1 * worked
            )

        wait_until(is_accounted_for, "all of the thread's time in the stats file")
        # Who is parked pays for its own request, and not for the time that it waits.
        rows = read_stats(DataDir(cluster.data_dir).run / f"broker-{broker}.stats").rows
        used = {row.client_id: row.usage for row in rows if row.quota == QuotaKind.REQUEST}
        assert used[client_id] > 25
        assert used.get(waiting_id, 0.0) < 1
        client.call(produce_request(quiet, batch(10)))
        (fetched,) = waiting.receive().responses[0].partitions  # it was parked all the time
        assert (fetched.error_code, fetched.high_watermark) == (0, 1)


# -- changes of topics (KIP-599), connections (KIP-612) --------------------------------------------


def creation(name: str, partition_count: int, version: int) -> object:
    topic = {
        "name": name,
        "num_partitions": partition_count,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return request(
        ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=30_000, validate_only=False
    )


def test_changes_of_topics_are_held_to_their_rate(cluster):
    client_id, prefix = a_client_id(), a_client_id()
    with WireClient(cluster.addresses[0]) as anybody:
        told = anybody.call(metadata_request())
    (address,) = [(b.host, b.port) for b in told.brokers if b.node_id == told.controller_id]
    other = next((b.host, b.port) for b in told.brokers if b.node_id != told.controller_id)
    with (
        limited(cluster, client_id, controller_mutation_rate=5.0),
        NamedClient(address, client_id) as client,
    ):
        # Eleven seconds' worth, and what is over, as a topic is taken whole or not at all.
        first = client.call(creation(f"{prefix}-0", 75, 7))
        assert (first.topics[0].error_code, throttle_ms(first)) == (0, 0)
        refused = client.call(creation(f"{prefix}-1", 1, 7))
        began = time.monotonic()
        assert refused.topics[0].error_code == ErrorCode.throttling_quota_exceeded
        assert 0 < throttle_ms(refused) <= 4_000
        with NamedClient(other, client_id) as asking, NamedClient(other, prefix) as neighbor:

            def is_there(client, name):
                (topic,) = client.call(metadata_request(name, auto_create=True)).topics
                assert topic.error_code in (ErrorCode.none, ErrorCode.leader_not_available)
                return topic.error_code == ErrorCode.none

            # So are topics that are created since they are missed, whichever broker is asked.
            wait_until(lambda: is_there(asking, f"{prefix}-2"), "a missed topic")
            assert time.monotonic() - began >= throttle_ms(refused) / 1_000 - 0.1
            wait_until(lambda: is_there(neighbor, f"{prefix}-3"), "a neighbor's topic")

        def is_taken():
            (topic,) = client.call(creation(f"{prefix}-1", 1, 7)).topics
            return topic.error_code == ErrorCode.none

        wait_until(is_taken, "the refused topic")
        assert time.monotonic() - began >= throttle_ms(refused) / 1_000 - 0.1


def test_connections_of_an_address_are_limited_to_its_rate(cluster):
    address = QuotaEntity(None, None, "127.0.0.1")
    with SocketClient.connect(cluster.addresses, "test") as admin:  # it has its connection already
        alter_quotas(admin, address, {"connection_creation_rate": 2.0})
        try:

            def is_refused() -> bool:
                with WireClient(cluster.addresses[1]) as client:
                    try:
                        client.call(metadata_request())
                    except (ClosedByPeer, ConnectionError):
                        return True
                return False

            wait_until(is_refused, "a refused connection")
            assert describe_quotas(admin, [FilterComponent("ip", 0, "127.0.0.1")]) == {
                address: {"connection_creation_rate": 2.0}
            }
        finally:
            alter_quotas(admin, address, {"connection_creation_rate": None})
    wait_until(lambda: not is_refused(), "connections without a limit")
