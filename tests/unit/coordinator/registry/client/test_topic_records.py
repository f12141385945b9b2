"""What the controller and brokers keep in the registry: on the fake one and on the real one."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from cluster.coordinator.cluster_store import Deposed, OutOfStep, StoreVersion
from cluster.coordinator.registry.client import topic_records
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.errors import UserError
from cluster.model.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from cluster.model.plan import Plan
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.fake_registry import FakeClient, FakeTree, store_of
from tests.support.waiting import wait_until

WALL_MS = WallMs(1_700_000_000_000)
ONE, TWO = BrokerId(1), BrokerId(2)
EPOCH_1 = ControllerEpoch(1)


def commit(client: Any, plan: Plan, state: ClusterState, version: StoreVersion) -> None:
    """Write a plan, and apply it as the driver does."""
    store_of(client).topics.commit(plan, state, EPOCH_1, version)
    plan.apply(state)


def elected(client: Any, broker: BrokerId = ONE) -> StoreVersion:
    """Version of the epoch that the new controller checks."""
    election = store_of(client).election.campaign(broker, WALL_MS)
    assert election.epoch is not None
    return election.epoch_version


def topics_of(state: ClusterState) -> dict[str, Any]:
    return {name: (t.topic_id, dict(t.configs), t.partitions) for name, t in state.topics.items()}


def end(client: Any) -> None:
    """The client's session is over."""
    if isinstance(client, FakeClient):
        client.expire()
    else:
        client.stop()


class Seen:
    """A watch that counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    def wait(self) -> None:
        wait_until(lambda: self.count, "the watch")


# Brokers


def test_paths_are_prepared_once_and_the_cluster_has_one_id(new_client):
    first, second = new_client(), new_client()
    store_of(first).brokers.prepare()
    store_of(second).brokers.prepare()
    assert store_of(first).ids.cluster_id() == store_of(second).ids.cluster_id()
    assert len(store_of(first).ids.cluster_id()) == 22


def test_a_registered_broker_is_seen_with_its_epoch_until_its_session_ends(client, new_client):
    other = new_client()
    epoch = store_of(other).brokers.register(a_broker(2, rack="a"), WALL_MS)
    seen = Seen()
    (found,) = store_of(client).brokers.live(seen)
    assert found == replace(a_broker(2, rack="a"), epoch=epoch)
    end(other)
    seen.wait()
    assert store_of(client).brokers.live() == []


def test_a_broker_that_comes_back_has_a_larger_epoch(client, new_client):
    other = new_client()
    first = store_of(other).brokers.register(a_broker(2), WALL_MS)
    end(other)
    wait_until(lambda: store_of(client).brokers.live() == [], "the broker to go")
    assert store_of(new_client()).brokers.register(a_broker(2), WALL_MS) > first


def test_taken_broker_id_is_a_user_error(client, new_client):
    store_of(client).brokers.register(a_broker(1), WALL_MS)
    with pytest.raises(UserError, match="a broker with id 1 is already registered"):
        store_of(new_client()).brokers.register(a_broker(1), WALL_MS)


def test_registration_that_disappears_during_the_check_is_no_conflict(new_client, monkeypatch):
    """A broker that was killed and started again may meet the end of its former session."""
    client, former = new_client(), new_client()
    store_of(client).brokers.prepare()
    store_of(former).brokers.register(a_broker(1), WALL_MS)
    exists = client.exists

    def exists_afterwards(path: str) -> Any:
        end(former)
        wait_until(lambda: exists(path) is None, "the former registration to go")
        return exists(path)

    monkeypatch.setattr(client, "exists", exists_afterwards)
    assert store_of(client).brokers.register(a_broker(1), WALL_MS) > 0
    assert [broker.id for broker in store_of(client).brokers.live()] == [1]


def test_invalid_cluster_id_is_a_user_error(client):
    client.ensure_path("/cluster")
    client.create(paths.CLUSTER_ID, b"abc")
    with pytest.raises(UserError, match="/cluster/id in the registry"):
        store_of(client).ids.cluster_id()


def test_login_secret_of_the_first_broker_is_used_by_all(new_client):
    first, second = new_client(), new_client()
    assert store_of(first).ids.login_secret(b"a" * 32) == b"a" * 32
    assert store_of(second).ids.login_secret(b"b" * 32) == b"a" * 32
    second.set(paths.LOGIN_SECRET, b'{"version":1,"secret":"c2VjcmV0"}')
    with pytest.raises(UserError, match=r"/cluster/login_secret .* delete it") as refused:
        store_of(first).ids.login_secret(b"a" * 32)
    assert "c2VjcmV0" not in str(refused.value)


def test_registering_again_in_the_same_session_finds_the_registration(client):
    """The answer to the first try may have been lost."""
    epoch = store_of(client).brokers.register(a_broker(1), WALL_MS)
    assert store_of(client).brokers.register(a_broker(1), WALL_MS) == epoch


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("one", b"{}"),
        ("-1", b"{}"),
        ("99999999999", b"{}"),
        ("7", b""),
        ("7", b"["),
        ("7", b"[" * 100_000),
        ("7", b'{"endpoints":["PLAINTEXT://a:1e9"]}'),
        ("7", b'{"rack":"\\ud800"}'),
    ],
)
def test_invalid_broker_nodes_are_ignored(client, name, document):
    """Any tool can write there; the others still need a controller."""
    epoch = store_of(client).brokers.register(a_broker(2), WALL_MS)
    client.create(f"{paths.BROKER_IDS}/{name}", document)
    assert store_of(client).brokers.live() == [replace(a_broker(2), epoch=epoch)]


# Elections


def test_the_first_to_claim_is_the_controller_and_epochs_rise(client, new_client):
    other = new_client()
    seen = Seen()
    election = store_of(client).election.campaign(ONE, WALL_MS)
    assert (election.controller, election.epoch) == (ONE, 1)
    assert store_of(other).election.campaign(TWO, WALL_MS).epoch is None
    assert store_of(other).election.watch(seen) == ONE
    end(client)
    seen.wait()
    assert store_of(other).election.watch(Seen()) is None
    assert store_of(other).election.campaign(TWO, WALL_MS).epoch == 2


def test_a_claim_of_our_own_is_made_anew(client):
    first = store_of(client).election.campaign(ONE, WALL_MS)
    second = store_of(client).election.campaign(ONE, WALL_MS)
    assert (second.epoch, second.epoch_version) == (2, first.epoch_version + 1)


# Topics


def test_committed_topics_are_loaded(client):
    version = elected(client)
    state = ClusterState()
    orders = a_topic(
        "orders", a_partition([1, 2]), a_partition([2, 1], [2]), configs={"retention.ms": "5"}
    )
    commit(client, Plan(created=[orders, a_topic("bills", a_partition([2]))]), state, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(state)

    orders_0, bills_1 = TopicPartition("orders", 0), TopicPartition("bills", 1)
    plan = Plan(
        changed={orders_0: a_partition([1, 2], [2], 2, 1, 1)}, added={bills_1: a_partition([1])}
    )
    commit(client, plan, state, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(state)

    again = Plan(changed={orders_0: a_partition([1, 2], [2, 1], 2, 1, 2)}, deleted=["bills"])
    commit(client, again, state, version)
    loaded = store_of(client).topics.load(version).state
    assert topics_of(loaded) == topics_of(state)
    assert list(loaded.topics) == ["orders"]
    config_names = client.get_children(f"/config/{paths.TOPIC_CONFIGS}")
    assert config_names == ["orders"]


def test_a_large_plan_takes_several_transactions(client, monkeypatch):
    monkeypatch.setattr(topic_records, "WRITES_PER_TRANSACTION", 10)
    version = elected(client)
    state = ClusterState()
    topic = a_topic("wide", *[a_partition([1]) for _ in range(40)])
    commit(client, Plan(created=[topic]), state, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(state)
    commit(client, Plan(deleted=["wide"]), state, version)
    assert store_of(client).topics.load(version).state.topics == {}


def test_a_controller_that_was_replaced_writes_nothing(client, new_client):
    version = elected(client)
    state = ClusterState()
    commit(client, Plan(created=[a_topic("orders", a_partition([1, 2]))]), state, version)
    other = new_client()
    client.delete(paths.CONTROLLER)
    elected(other, TWO)
    plan = Plan(changed={TopicPartition("orders", 0): a_partition([1, 2], [2], 2, 1, 1)})
    with pytest.raises(Deposed):
        store_of(client).topics.commit(plan, state, EPOCH_1, version)
    with pytest.raises(Deposed):
        store_of(client).topics.commit(
            Plan(created=[a_topic("t", a_partition([1]))]), state, EPOCH_1, version
        )
    loaded = store_of(other).topics.load(StoreVersion(version + 1)).state
    assert topics_of(loaded) == topics_of(state)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(created=[a_topic("orders", a_partition([1]))]),
        Plan(changed={TopicPartition("orders", 0): a_partition([1], partition_epoch=7)}),
        Plan(changed={TopicPartition("orders", 9): a_partition([1], partition_epoch=1)}),
        Plan(added={TopicPartition("orders", 0): a_partition([1])}),
    ],
)
def test_a_plan_made_from_something_else_is_out_of_step(client, plan):
    version = elected(client)
    state = ClusterState()
    commit(client, Plan(created=[a_topic("orders", a_partition([1]))]), state, version)
    before = topics_of(store_of(client).topics.load(version).state)
    with pytest.raises(OutOfStep):
        store_of(client).topics.commit(plan, state, EPOCH_1, version)
    assert topics_of(store_of(client).topics.load(version).state) == before


def test_partitions_without_a_state_are_loaded_as_waiting_for_a_leader(client):
    version = elected(client)
    state = ClusterState()
    commit(client, Plan(created=[a_topic("orders", a_partition([1, 2]))]), state, version)
    client.delete(paths.partition_state(TopicPartition("orders", 0)))
    client.delete(paths.partition(TopicPartition("orders", 0)))
    loaded = store_of(client).topics.load(version).state.topics["orders"].partitions[0]
    assert loaded == a_partition([1, 2], leader=-1, partition_epoch=-1)
    plan = Plan(
        changed={TopicPartition("orders", 0): a_partition([1, 2], [2], 2, 1, partition_epoch=0)}
    )
    commit(client, plan, state, version)
    assert store_of(client).topics.load(version).state.topics["orders"].partitions[0].leader == 2


def test_topic_created_by_a_tool_can_be_led_configured_and_deleted(client):
    """An old tool writes the assignment and nothing else."""
    version = elected(client)
    client.create(paths.topic("orders"), b'{"version":1,"partitions":{"0":[1]}}')
    loaded = store_of(client).topics.load(version).state
    led = Plan(changed={TopicPartition("orders", 0): a_partition([1], [1], 1, 1)})
    commit(client, led, loaded, version)
    commit(client, Plan(configured={"orders": {"retention.ms": "5"}}), loaded, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(loaded)
    client.delete(paths.entity_config(paths.TOPIC_CONFIGS, "orders"))
    client.create(f"{paths.partitions('orders')}/0/of another tool", b"")
    commit(client, Plan(deleted=["orders"]), loaded, version)
    assert client.get_children(paths.TOPICS) == []


def test_a_topic_whose_name_no_directory_can_have_is_left_out(client):
    """No broker would take an update over that names it, whatever else is in the update."""
    version = elected(client)
    for name in ("x" * 249, "x" * 250):
        client.create(paths.topic(name), b'{"version":1,"partitions":{"0":[1]}}')
    assert list(store_of(client).topics.load(version).state.topics) == ["x" * 249]


def test_a_topic_without_an_id_has_the_same_one_after_every_election(client):
    """With another id its replicas would be another topic's, and removed."""
    version = elected(client)
    document = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"0":[2]}}'
    client.create(paths.topic("orders"), document)
    first = store_of(client).topics.load(version).state.topics["orders"].topic_id
    version = elected(client)
    assert store_of(client).topics.load(version).state.topics["orders"].topic_id == first
    kept = znodes.decode_topic(client.get(paths.topic("orders"))[0])
    assert (kept.topic_id, kept.replicas, kept.adding) == (first, {0: (1,)}, {0: (2,)})


def test_a_document_from_before_reassignments_has_no_adding_or_removing_replicas(client):
    version = elected(client)
    client.create(paths.topic("orders"), b'{"version":1,"partitions":{"0":[1,2]}}')
    state = store_of(client).topics.load(version).state.topics["orders"].partitions[0]
    assert (state.replicas, state.adding, state.removing) == ((1, 2), (), ())


def test_adding_and_removing_replicas_are_kept_when_partitions_are_added(client):
    version = elected(client)
    made = a_topic("orders", a_partition([1, 2, 3]), a_partition([1]))
    commit(client, Plan(created=[made]), ClusterState(), version)
    document = (
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAABw","partitions":{"0":[1,2,3],"1":[1]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    )
    client.set(paths.topic("orders"), document)
    loaded = store_of(client).topics.load(version).state
    state = loaded.topics["orders"].partitions[0]
    assert (state.adding, state.removing) == ((3,), (1,))

    plan = Plan(added={TopicPartition("orders", 2): a_partition([2])})
    commit(client, plan, loaded, version)

    kept = znodes.decode_topic(client.get(paths.topic("orders"))[0])
    assert kept.replicas == {0: (1, 2, 3), 1: (1,), 2: (2,)}
    assert (kept.adding, kept.removing) == ({0: (3,)}, {0: (1,)})
    again = store_of(client).topics.load(version).state.topics["orders"].partitions[0]
    assert again == state


def moved_partitions() -> tuple[ClusterState, Plan]:
    """Three partitions of one topic; the plan begins a move, completes one, and leaves one."""
    midway = replace(a_partition([3, 1], [1, 3], 1), adding=(BrokerId(3),), removing=(ONE,))
    state = ClusterState()
    state.put_topic(a_topic("orders", a_partition([1]), midway, a_partition([2])))
    changed = {
        TopicPartition("orders", 0): replace(
            a_partition([2, 1], [1], 1, partition_epoch=1), adding=(BrokerId(2),), removing=(ONE,)
        ),
        TopicPartition("orders", 1): a_partition([3], [3], 3, 1, partition_epoch=1),
    }
    return state, Plan(changed=changed)


def test_the_replicas_of_a_partition_that_moves_are_written_with_its_state(client):
    version = elected(client)
    before, plan = moved_partitions()
    commit(client, Plan(created=list(before.topics.values())), ClusterState(), version)
    commit(client, plan, before, version)
    loaded = store_of(client).topics.load(version).state.topics["orders"].partitions
    assert loaded[0] == plan.changed[TopicPartition("orders", 0)]
    assert loaded[1] == plan.changed[TopicPartition("orders", 1)]
    assert loaded[2] == a_partition([2])


@pytest.mark.parametrize("survived_count", [1, 2, 3])
def test_a_partly_written_move_leaves_in_sync_replicas_that_are_assigned(
    client, monkeypatch, survived_count
):
    monkeypatch.setattr(topic_records, "WRITES_PER_TRANSACTION", 1)
    version = elected(client)
    before, plan = moved_partitions()
    commit(client, Plan(created=list(before.topics.values())), ClusterState(), version)
    transaction = client.transaction
    counted = iter(range(survived_count))

    def dying() -> Any:
        if next(counted, None) is None:
            raise Died
        return transaction()

    with monkeypatch.context() as patched:
        patched.setattr(client, "transaction", dying)
        with suppress(Died):
            store_of(client).topics.commit(plan, before, EPOCH_1, version)

    loaded = store_of(client).topics.load(elected(client)).state
    for _, state in loaded.partitions():
        assert set(state.isr) <= set(state.replicas)
        assert state.leader in state.isr
    is_whole = survived_count == 3
    assert loaded.topics["orders"].partitions[1].is_reassigning != is_whole


class CountingChanges(dict[TopicPartition, PartitionState]):
    """Counts how often all of it is looked at."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        return super().items()


def test_a_plan_that_moves_many_topics_is_looked_at_as_often_as_one_of_a_single_topic():
    client = FakeClient(FakeTree())
    store_of(client).brokers.prepare()
    version, state, looks = elected(client), ClusterState(), []
    for count in (1, 20):
        made = [a_topic(f"t{count}-{number}", a_partition([1])) for number in range(count)]
        commit(client, Plan(created=made), state, version)
        moved = replace(a_partition([2, 1], [1], 1, partition_epoch=1), adding=(TWO,))
        changed = CountingChanges({TopicPartition(topic.name, 0): moved for topic in made})
        store_of(client).topics.commit(Plan(changed=changed), state, EPOCH_1, version)
        looks.append(changed.looks)
        loaded = store_of(client).topics.load(version).state
        assert {loaded.topics[topic.name].partitions[0] for topic in made} == {moved}
    assert looks[0] == looks[1]


def test_only_the_controller_gives_topics_ids(client):
    version = elected(client)
    client.create(paths.topic("orders"), b'{"version":1,"partitions":{"0":[1]}}')
    with pytest.raises(Deposed):
        store_of(client).topics.load(StoreVersion(version - 1))


def test_configs_left_behind_do_not_keep_a_topic_from_being_made(client):
    version = elected(client)
    client.create(paths.entity_config(paths.TOPIC_CONFIGS, "orders"), b"left behind")
    state = ClusterState()
    orders = a_topic("orders", a_partition([1]), configs={"retention.ms": "5"})
    commit(client, Plan(created=[orders]), state, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(state)


def test_topic_with_malformed_configs_has_none(client):
    version = elected(client)
    commit(client, Plan(created=[a_topic("orders", a_partition([1]))]), ClusterState(), version)
    client.set(paths.entity_config(paths.TOPIC_CONFIGS, "orders"), b'{"config":{"a":"\\ud800"}}')
    assert store_of(client).topics.load(version).state.topics["orders"].configs == {}


@pytest.mark.parametrize(
    "path", ["/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"]
)
def test_unreadable_topic_is_an_error_that_names_it(client, path):
    version = elected(client)
    commit(client, Plan(created=[a_topic("orders", a_partition([1]))]), ClusterState(), version)
    client.set(path, b"{}")
    with pytest.raises(ValueError, match=path):
        store_of(client).topics.load(version)


class Died(Exception):
    """The controller, between two transactions."""


@pytest.mark.parametrize("survived_count", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("is_deletion", [False, True])
def test_next_controller_continues_from_a_partly_written_plan(
    client, monkeypatch, survived_count, is_deletion
):
    monkeypatch.setattr(topic_records, "WRITES_PER_TRANSACTION", 2)
    version = elected(client)
    topic = a_topic("wide", *[a_partition([1]) for _ in range(4)])
    state = ClusterState()
    plan = Plan(created=[topic])
    if is_deletion:
        commit(client, plan, state, version)
        plan = Plan(deleted=["wide"])
    transaction = client.transaction
    counted = iter(range(survived_count))

    def dying() -> Any:
        if next(counted, None) is None:
            raise Died
        return transaction()

    with monkeypatch.context() as patched:
        patched.setattr(client, "transaction", dying)
        with suppress(Died):
            store_of(client).topics.commit(plan, state, EPOCH_1, version)

    version = elected(client)
    loaded = store_of(client).topics.load(version).state
    waiting = {
        partition: replace(
            one, leader=ONE, leader_epoch=LeaderEpoch(1), partition_epoch=PartitionEpoch(0)
        )
        for partition, one in loaded.partitions()
        if one.partition_epoch < 0
    }
    commit(client, Plan(changed=waiting), loaded, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(loaded)
    if "wide" in loaded.topics:
        commit(client, Plan(deleted=["wide"]), loaded, version)
    commit(client, Plan(created=[topic]), loaded, version)
    assert topics_of(store_of(client).topics.load(version).state) == topics_of(loaded)


def test_the_zxid_of_a_state_tells_whether_a_broker_was_away_since(client, new_client):
    version = elected(client)
    other = new_client()
    before = store_of(other).brokers.register(a_broker(2), WALL_MS)
    state = ClusterState()
    commit(client, Plan(created=[a_topic("orders", a_partition([1, 2]))]), state, version)
    written = store_of(client).topics.load(version).written[TopicPartition("orders", 0)]
    end(other)
    wait_until(lambda: store_of(client).brokers.live() == [], "the broker to go")
    after = store_of(new_client()).brokers.register(a_broker(2), WALL_MS)
    assert before < written < after
    plan = Plan(changed={TopicPartition("orders", 0): a_partition([1, 2], [1], 1, 0, 1)})
    commit(client, plan, state, version)
    assert store_of(client).topics.load(version).written[TopicPartition("orders", 0)] > after


# Ids


def test_every_broker_id_is_above_the_reserved_ones_and_given_once(client, new_client):
    other = new_client()
    found = [store_of(each).ids.next_broker_id(1_000) for each in (client, other, client)]
    assert found == [1_001, 1_002, 1_003]
    assert store_of(other).ids.next_broker_id(5_000) == 5_004


def test_an_id_is_free_while_no_broker_has_registered_with_it(client, new_client):
    store_of(client).brokers.prepare()
    store_of(client).brokers.check_free(ONE)
    store_of(client).brokers.register(a_broker(1), WALL_MS)
    with pytest.raises(UserError, match="a broker with id 1 is already registered"):
        store_of(new_client()).brokers.check_free(ONE)


def test_blocks_of_producer_ids_do_not_overlap(client, new_client):
    other = new_client()
    blocks = [
        store_of(client).ids.next_producer_ids(ONE),
        store_of(other).ids.next_producer_ids(TWO),
        store_of(client).ids.next_producer_ids(ONE),
    ]
    assert blocks == [range(0, 1000), range(1000, 2000), range(2000, 3000)]


@pytest.mark.parametrize("last", [2**63 - 1, 2**63 - 1_000, 2**70, -5])
def test_producer_ids_end_where_they_would_not_fit(client, last):
    document = f'{{"version":1,"broker":1,"block_start":"0","block_end":"{last}"}}'.encode()
    client.create(paths.LATEST_PRODUCER_ID_BLOCK, document)
    with pytest.raises(ValueError, match="no producer ids after"):
        store_of(client).ids.next_producer_ids(ONE)
    client.set(paths.LATEST_PRODUCER_ID_BLOCK, document.replace(b'"%d"' % last, b'"998"'))
    assert store_of(client).ids.next_producer_ids(ONE) == range(999, 1999)


def test_a_transaction_that_fails_leaves_nothing(client):
    transaction = client.transaction()
    transaction.create("/brokers/a", b"")
    transaction.create("/missing/b", b"")
    results = transaction.commit()
    assert all(isinstance(result, Exception) for result in results)
    assert client.exists("/brokers/a") is None


class ReadsUnderWay:
    """Counts the reads of a client that have begun and whose answers are not taken."""

    def __init__(self, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.most = 0
        for name in ("get_async", "get_children_async"):
            monkeypatch.setattr(client, name, self._counted(getattr(client, name)))

    def _counted(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def begin(path: str, **options: Any) -> "ReadsUnderWay.Answer":
            self.now += 1
            self.most = max(self.most, self.now)
            return self.Answer(self, read(path, **options))

        return begin

    class Answer:
        def __init__(self, reads: "ReadsUnderWay", answer: Any) -> None:
            self._reads = reads
            self._answer = answer

        def get(self, *how: Any) -> Any:
            self._reads.now -= 1
            return self._answer.get(*how)


@pytest.mark.slow
def test_a_limited_number_of_reads_is_under_way_at_a_time(client, monkeypatch):
    monkeypatch.setattr(topic_records, "READS_AT_ONCE", 4)
    version = elected(client)
    state = ClusterState()
    topic = a_topic("orders", *[a_partition([1])] * 30)
    commit(client, Plan(created=[topic]), state, version)

    reads = ReadsUnderWay(client, monkeypatch)
    loaded = store_of(client).topics.load(version)
    commit(client, Plan(deleted=["orders"]), state, version)

    assert reads.most == 4
    assert topics_of(loaded.state) == {"orders": (topic.topic_id, {}, topic.partitions)}
    assert client.get_children(paths.TOPICS) == []
