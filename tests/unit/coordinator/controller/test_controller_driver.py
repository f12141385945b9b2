"""The driver with a fake registry and a fake link: elections, operations, messages, failures."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoNodeError, NotReadOnlyCallError

from cluster.coordinator.controller import broker_updates, elections
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.registry.client.change_nodes import commit_config
from cluster.coordinator.registry.client.election_records import ElectionRecords
from cluster.coordinator.registry.client.topic_records import TopicRecords
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerEpoch, BrokerId, PartitionEpoch, TopicPartition
from cluster.model.plan import Plan
from cluster.model.quotas import QuotaClient
from cluster.model.topics import NewTopic, TopicAlteration
from cluster.protocol.peer.control import (
    Acknowledged,
    AlterTopicConfigs,
    ControlledShutdown,
    CreateTopics,
    PartitionAltered,
    Refusal,
    ShutdownPrepared,
)
from tests.support.controller_stage import (
    ORDERS_0,
    WALL_MS,
    Member,
    Outcomes,
    Stage,
    create,
    epoch_of,
    propose,
    updates,
)
from tests.support.fake_registry import FakeClient, FakeTransaction, store_of


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.fixture
def controller(stage: Stage) -> Member:
    """Broker 1, the controller, whose first update is acknowledged; broker 2 is live too."""
    member = stage.member(1)
    stage.member(2)
    member.driver.campaign()
    stage.settle()
    member.link.answer_all(Acknowledged(ErrorCode.none))
    assert member.driver.is_active
    return member


def fill_the_registry(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry refuses transactions, as on a full disk."""

    def refuse(*_: object) -> None:
        raise NotReadOnlyCallError

    monkeypatch.setattr(FakeTransaction, "commit", refuse)


def test_a_write_refused_by_a_full_registry_is_reported_and_the_controller_stays(
    stage: Stage, controller: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_the_registry(stage, full)
        created = create(controller)
        deleted: list[Any] = []
        stage.settle()
        (outcomes,) = created.given
        assert outcomes["orders"].code is ErrorCode.kafka_storage_error
        assert "the disk of the registry is full" in str(outcomes["orders"].detail)
        assert controller.driver.is_active
        assert controller.controller_epoch == 1
    again = create(controller, timeout_ms=0)
    stage.settle()
    assert again.codes == [{"orders": "request_timed_out"}]  # carried out without a waiting client
    with monkeypatch.context() as full:
        fill_the_registry(stage, full)
        controller.requests.delete_topics([("orders", None)], 0, deleted.append)
        stage.settle()
    (((_, _, outcome),),) = deleted
    assert outcome.code is ErrorCode.kafka_storage_error


def test_elections_refused_by_a_full_registry_are_retried(
    stage: Stage, controller: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(controller, timeout_ms=0)
    stage.settle()
    assert controller.driver.controller is not None
    before = controller.driver.controller.state.partition(TopicPartition("orders", 0))
    assert before is not None
    with monkeypatch.context() as full:
        fill_the_registry(stage, full)
        stop(controller, before.leader, epoch_of(controller, before.leader))
        stage.settle()
        assert not controller.driver.is_active
    stage.pass_time(500)
    assert controller.driver.is_active


def stop(member: Member, broker: int, epoch: int) -> list[ShutdownPrepared]:
    """The answers to a broker that is about to stop."""
    answers: list[ShutdownPrepared] = []
    request = ControlledShutdown(BrokerId(broker), BrokerEpoch(epoch))
    member.requests.on_controlled_shutdown(request, answers.append)
    return answers


# Elections


def test_one_of_two_candidates_becomes_controller_and_sends_the_full_state(stage):
    first, second = stage.member(1), stage.member(2)
    first.driver.campaign()
    second.driver.campaign()
    stage.settle()
    assert (first.controller_epoch, second.controller_epoch) == (1, None)
    told = updates(first)
    assert {update.broker_epoch for update in told.values()} == {first.epoch, second.epoch}
    for update in told.values():
        assert update.is_full
        assert (update.controller, update.controller_epoch) == (1, 1)
        assert [broker.id for broker in update.brokers] == [1, 2]
    assert second.link.asked == []


def test_when_the_controller_s_session_ends_another_becomes_controller(stage):
    first, second = stage.member(1), stage.member(2)
    first.driver.campaign()
    second.driver.campaign()
    stage.settle()
    create(first)
    stage.settle()
    first.driver.stop()
    first.session.client.expire()
    stage.settle()
    assert second.controller_epoch == 2
    state = second.driver.controller.state
    assert state.partition(ORDERS_0).leader == 2
    assert state.partition(ORDERS_0).isr == (2,)


def test_a_controller_is_elected_again_when_its_node_is_deleted(stage, controller):
    controller.session.client.delete(paths.CONTROLLER)
    stage.settle()
    assert controller.controller_epoch == 2
    assert controller.session.client.exists(paths.CONTROLLER)


def test_campaigns_that_cross_each_other_end_in_one_controller(stage, controller):
    """Two watches fire, or a retry is due while another campaign is running."""
    for _ in range(3):
        with suppress(NoNodeError):
            controller.session.client.delete(paths.CONTROLLER)
        controller.driver.campaign()
        stage.loop.run_once(max_wait_ms=0)
        controller.session.work(1)
    stage.settle()
    assert controller.driver.is_active
    epoch = controller.controller_epoch
    for _ in range(5):
        stage.pass_time(1_000)
    assert controller.controller_epoch == epoch


def test_a_broker_that_stops_does_not_become_controller_any_more(stage):
    member = stage.member(1)
    member.driver.campaign()
    member.driver.stop()
    stage.settle()
    member.driver.campaign()
    stage.settle()
    assert not member.driver.is_active
    assert member.link.asked == []


def test_an_election_won_before_the_session_was_lost_does_not_count(stage):
    member = stage.member(1)
    member.driver.campaign()
    member.session.work(1)
    stage.loop.run_once(max_wait_ms=0)  # elected; the cluster's state is being loaded
    member.session.work(1)
    member.driver.resign()  # the end of the session is noticed before the load's result
    stage.loop.run_once(max_wait_ms=0)
    assert not member.driver.is_active
    member.session.client.begin_again()
    member.register()
    member.driver.campaign()
    stage.settle()
    assert member.controller_epoch == 2


def test_without_the_registry_the_campaign_is_tried_again(stage, monkeypatch):
    member = stage.member(1)
    calls: list[int] = []

    def unreachable(*_: object) -> None:
        calls.append(1)
        raise ConnectionLoss

    monkeypatch.setattr(ElectionRecords, "campaign", unreachable)
    member.driver.campaign()
    stage.settle()
    stage.pass_time(500)
    assert len(calls) == 2
    monkeypatch.undo()
    stage.pass_time(500)
    assert member.driver.is_active


def test_a_load_that_fails_leads_to_another_campaign(stage, monkeypatch):
    def broken(_client: object) -> None:
        raise ConnectionLoss

    member = stage.member(1)
    monkeypatch.setattr(TopicRecords, "load", broken)
    member.driver.campaign()
    stage.settle()
    assert not member.driver.is_active
    monkeypatch.undo()
    stage.pass_time(500)
    assert member.driver.is_active


# Brokers


def test_a_new_broker_gets_the_full_state_and_the_others_an_update(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    third = stage.member(3)
    stage.settle()
    told = updates(controller)
    assert {endpoint: update.is_full for endpoint, update in told.items()} == {
        "control-1-100": False,
        "control-2-100": False,
        "control-3-100": True,
    }
    assert [t.name for t in told["control-3-100"].topics] == ["orders"]
    assert told["control-3-100"].broker_epoch == third.epoch
    assert told["control-1-100"].topics == ()
    assert [b.id for b in told["control-1-100"].brokers] == [1, 2, 3]
    assert controller.link.kept_endpoints == set(told)


def test_a_lost_broker_loses_its_leaderships(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    before = controller.driver.controller.state.partition(ORDERS_0)
    gone = next(m for m in stage.members if m.id == 2)
    gone.session.client.expire()
    stage.settle()
    (update,) = updates(controller).values()
    (topic,) = update.topics
    assert topic.partitions[0].isr == (1,)
    assert topic.partitions[0].leader == 1
    assert topic.partitions[0].partition_epoch == before.partition_epoch + 1


def lose_a_broker_of_many_partitions(
    stage: Stage, controller: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the elections have begun; each partition is a step, which takes longer than a slice."""
    elect = elections.elect

    def slowly(*arguments: Any, **options: Any) -> PartitionState | None:
        stage.clock.pass_time(3)
        return elect(*arguments, **options)

    monkeypatch.setattr(elections, "PARTITIONS_PER_STEP", 1)
    monkeypatch.setattr(elections, "elect", slowly)
    for number in range(12):
        create(controller, f"topic-{number}")
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    next(m for m in stage.members if m.id == 2).session.client.expire()
    while not controller.session.pending:
        stage.loop.run_once(max_wait_ms=0)
    controller.session.work()
    stage.loop.run_once(max_wait_ms=0)
    assert not controller.session.pending


def test_elections_of_many_partitions_take_several_turns_and_are_one_update(
    stage, controller, monkeypatch
):
    lose_a_broker_of_many_partitions(stage, controller, monkeypatch)
    turns = 0
    while not controller.session.pending:
        stage.loop.run_once(max_wait_ms=0)
        turns += 1
    assert turns >= 5
    stage.settle()
    (update,) = updates(controller).values()
    assert {p.isr for topic in update.topics for p in topic.partitions.values()} == {(1,)}
    assert len(update.topics) == 12


def test_requests_during_an_election_are_processed_after_it(stage, controller, monkeypatch):
    lose_a_broker_of_many_partitions(stage, controller, monkeypatch)
    outcomes = create(controller, "late", factor=1)
    assert not controller.session.pending
    stage.settle()
    assert controller.driver.controller.state.topics["late"].partitions[0].isr == (1,)
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert outcomes.codes == [{"late": "none"}]


def test_elections_that_a_resignation_interrupts_write_nothing(stage, controller, monkeypatch):
    lose_a_broker_of_many_partitions(stage, controller, monkeypatch)
    controller.driver.stop()
    stage.settle()
    states = [
        stage.tree.nodes[path] for path in stage.tree.nodes if path.endswith("/partitions/0/state")
    ]
    assert len(states) == 12
    assert {node.version for node in states} == {0}


def test_brokers_that_change_while_the_state_is_loaded_are_noticed(stage):
    member = stage.member(1)
    member.driver.campaign()
    member.session.work(1)
    stage.loop.run_once(max_wait_ms=0)
    member.session.work(1)  # loaded, with one broker; the result is not delivered yet
    stage.member(2)
    stage.settle()
    assert set(member.driver.controller.state.brokers) == {1, 2}


def test_watches_of_an_earlier_term_do_not_add_up(stage, controller, monkeypatch):
    def lose_the_connection(*_arguments: Any) -> None:
        raise ConnectionLoss

    for _ in range(5):
        with monkeypatch.context() as patched:
            patched.setattr(TopicRecords, "commit", lose_the_connection)
            create(controller)
            stage.settle()
        assert not controller.driver.is_active
        stage.pass_time(500)
    assert controller.driver.is_active
    controller.link.take()
    looks: list[int] = []
    submit = controller.session.submit
    controller.session.submit = lambda *a: (looks.append(1), submit(*a))
    stage.member(3)
    stage.settle()
    assert len(looks) == 1


# Configs of topics that others change in the registry


def write_configs(stage: Stage, topic: str, **configs: str) -> None:
    """Like a tool of Kafka: the config, then its announcement."""
    client: Any = FakeClient(stage.tree)
    path = paths.entity_config(paths.TOPIC_CONFIGS, topic)
    client.ensure_path(path)
    client.set(path, znodes.encode_entity_config(configs))
    commit_config(
        client, client.transaction(), paths.entity_path(paths.TOPIC_CONFIGS, topic), WALL_MS
    )


def configs_known(member: Member, topic: str = "orders") -> Any:
    assert member.driver.controller is not None
    return member.driver.controller.state.topics[topic].configs


@pytest.fixture
def with_orders(stage: Stage, controller: Member) -> Member:
    """The controller, when every broker knows a topic of two replicas."""
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    stage.settle()
    return controller


def test_configs_changed_by_another_tool_are_sent_to_every_broker(stage, with_orders):
    write_configs(stage, "orders", retention="5")
    stage.settle()
    assert configs_known(with_orders) == {"retention": "5"}
    told = updates(with_orders)
    assert set(told) == {"control-1-100", "control-2-100"}
    for update in told.values():
        (topic,) = update.topics
        assert (topic.configs, set(topic.partitions)) == ({"retention": "5"}, {0})


def test_a_repeated_announcement_of_configs_is_processed_again(stage, with_orders):
    for value in ("5", "6", "7"):
        write_configs(stage, "orders", retention=value)
        write_configs(stage, "nowhere", retention=value)
        stage.settle()
        assert configs_known(with_orders) == {"retention": value}


def test_a_change_while_the_state_is_loaded_is_noticed(stage, with_orders):
    with_orders.driver.resign()
    with_orders.driver.campaign()
    with_orders.session.work(1)
    stage.loop.run_once(max_wait_ms=0)
    with_orders.session.work(1)  # loaded; the result is not delivered yet
    write_configs(stage, "orders", retention="5")
    stage.settle()
    assert configs_known(with_orders) == {"retention": "5"}


def test_the_controllers_own_change_is_written_and_sent_once(stage, with_orders):
    replies: list[Any] = []
    alteration = TopicAlteration("orders", False, {"retention": "5"})
    with_orders.requests.on_configs_altered(AlterTopicConfigs((alteration,), False), replies.append)
    stage.settle()
    assert configs_known(with_orders) == {"retention": "5"}
    assert len(with_orders.link.take()) == 2
    client = with_orders.session.client
    _, stat = client.get(paths.entity_config(paths.TOPIC_CONFIGS, "orders"))
    assert stat.version <= 1
    assert len(client.get_children(paths.CONFIG_CHANGES)) == 1


def test_a_change_by_others_between_two_own_ones_is_not_overwritten(stage, with_orders):
    write_configs(stage, "orders", retention="5")
    stage.loop.run_once(max_wait_ms=0)
    with_orders.session.work(1)  # the announcement is read, the announced config is not
    write_configs(stage, "orders", retention="6")
    stage.settle()
    assert configs_known(with_orders) == {"retention": "6"}


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"config":7}'])
def test_a_malformed_config_document_is_treated_as_empty(stage, with_orders, document):
    write_configs(stage, "orders", retention="5")
    stage.settle()
    client: Any = FakeClient(stage.tree)
    client.set(paths.entity_config(paths.TOPIC_CONFIGS, "orders"), document)
    commit_config(client, client.transaction(), "topics/orders", WALL_MS)
    stage.settle()
    assert configs_known(with_orders) == {}
    assert with_orders.driver.is_active


# Unclean elections that become possible


def leaderless(stage: Stage, controller: Member) -> None:
    """`orders` has lost its only in-sync replica; the controller's own broker has another one."""
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    state = controller.driver.controller.state.partition(ORDERS_0)  # type: ignore[union-attr]
    assert state is not None
    other = next(m for m in stage.members if m.id == 2)
    if state.leader == 1:
        lonely = PartitionState(
            state.replicas, (BrokerId(2),), BrokerId(2), state.leader_epoch, state.partition_epoch
        )
        controller.driver.controller.state.topics["orders"].partitions[0] = lonely  # type: ignore[union-attr]
    else:
        propose(controller, [2])
        stage.settle()
    controller.link.take()
    other.session.client.expire()
    stage.settle()
    state = controller.driver.controller.state.partition(ORDERS_0)  # type: ignore[union-attr]
    assert state is not None
    assert (state.leader, state.isr) == (-1, (2,))
    controller.link.take()


def test_a_topic_gets_a_leader_when_it_allows_unclean_elections(stage, controller):
    leaderless(stage, controller)
    write_configs(stage, "orders", unclean="true")
    stage.settle()
    assert controller.driver.controller.state.partition(ORDERS_0).leader == 1


def test_a_client_gives_a_topic_a_leader_by_allowing_unclean_elections(stage, controller):
    leaderless(stage, controller)
    alteration = TopicAlteration("orders", False, {"unclean": "true"})
    controller.requests.on_configs_altered(AlterTopicConfigs((alteration,), False), lambda _: None)
    stage.settle()
    assert controller.driver.controller.state.partition(ORDERS_0).leader == 1


def test_all_topics_get_leaders_when_brokers_allow_unclean_elections(stage, controller):
    leaderless(stage, controller)
    controller.driver.elect_unclean()
    stage.settle()
    assert controller.driver.controller.state.partition(ORDERS_0).leader == -1
    stage.is_unclean = True
    controller.driver.elect_unclean()
    stage.settle()
    state = controller.driver.controller.state.partition(ORDERS_0)
    assert (state.leader, state.isr) == (1, (1,))


# One operation at a time


def test_operations_run_in_order_and_see_earlier_changes(stage, controller):
    first = create(controller)
    second = create(controller)
    assert len(controller.session.pending) == 1
    stage.settle()
    assert second.codes == [{"orders": "topic_already_exists"}]
    assert first.codes == []  # until everyone knows
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert first.codes == [{"orders": "none"}]


def test_many_empty_operations_take_one_turn(stage, controller):
    first = create(controller)
    others = [create(controller) for _ in range(3_000)]
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert first.codes == [{"orders": "none"}]
    assert all(one.codes == [{"orders": "topic_already_exists"}] for one in others)


def test_an_empty_operation_is_answered_without_an_update(stage, controller):
    refused = create(controller, factor=9)
    checked = create(controller, validate_only=True)
    assert refused.codes == [{"orders": "invalid_replication_factor"}]
    assert checked.codes == [{"orders": "none"}]
    assert controller.link.asked == []
    assert controller.driver.controller.state.topics == {}


def test_requests_are_refused_by_a_broker_that_is_not_the_controller(stage, controller):
    other = next(m for m in stage.members if m.id == 2)
    assert create(other).codes == [{"orders": "not_controller"}]
    deleted: list[Any] = []
    other.requests.delete_topics([("orders", None)], 1000, deleted.extend)
    assert [(name, outcome.code.name) for name, _, outcome in deleted] == [
        ("orders", "not_controller")
    ]
    enlarged = Outcomes()
    other.requests.create_partitions(
        [("orders", 3, None)], validate_only=False, timeout_ms=1, on_done=enlarged
    )
    assert enlarged.codes == [{"orders": "not_controller"}]
    assert stop(other, 1, 1) == [ShutdownPrepared(False)]


def test_an_operation_in_progress_when_the_controller_resigns_fails_once(stage, controller):
    under_way, waiting = create(controller, "a"), create(controller, "b")
    controller.driver.resign()
    assert waiting.codes == [{"b": "not_controller"}]
    stage.settle()
    assert under_way.codes == [{"a": "not_controller"}]
    assert len(waiting.given) == 1


def test_a_deposed_controller_writes_nothing_and_campaigns(stage, controller):
    client = FakeClient(stage.tree)
    client.delete(paths.CONTROLLER)
    store_of(client).election.campaign(BrokerId(9), WALL_MS)
    outcomes = create(controller)  # before it is notified
    stage.settle()
    assert outcomes.codes == [{"orders": "not_controller"}]
    assert not controller.driver.is_active
    assert controller.session.client.exists(paths.topic("orders")) is None
    stage.pass_time(500)
    assert not controller.driver.is_active
    client.expire()
    stage.settle()
    assert controller.controller_epoch == 3


def test_a_controller_reloads_in_its_epoch_when_its_state_is_outdated(stage, controller):
    state_path = paths.partition_state(ORDERS_0)
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    document, _ = controller.session.client.get(state_path)
    controller.session.client.set(state_path, document)  # another process writes there
    replies = propose(controller, [1])
    stage.settle()
    assert replies == [PartitionAltered(ErrorCode.not_controller)]
    assert not controller.driver.is_active
    stage.pass_time(500)
    assert controller.controller_epoch == 1
    assert controller.driver.controller.state.partition(ORDERS_0).partition_epoch == 1
    assert all(update.is_full for update in updates(controller).values())


def test_the_state_is_reloaded_after_a_write_with_unknown_outcome(stage, controller, monkeypatch):
    commit = TopicRecords.commit

    def lost_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise ConnectionLoss

    monkeypatch.setattr(TopicRecords, "commit", lost_answer)
    outcomes = create(controller)
    stage.settle()
    assert outcomes.codes == [{"orders": "not_controller"}]
    monkeypatch.undo()
    stage.pass_time(500)
    assert "orders" in controller.driver.controller.state.topics


# Messages to brokers


def test_a_proposal_is_answered_when_it_is_written_and_then_announced(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    replies = propose(controller, [1])
    assert replies == []
    stage.settle()
    leader = controller.driver.controller.state.partition(ORDERS_0).leader
    if leader == 1:
        assert replies == [PartitionAltered(ErrorCode.none, (BrokerId(1),), PartitionEpoch(1))]
        assert len(updates(controller)) == 2
    else:
        assert replies == [PartitionAltered(ErrorCode.ineligible_replica)]


def test_a_refused_proposal_is_answered_and_not_announced(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert propose(controller, [1, 2], partition_epoch=9) == [
        PartitionAltered(ErrorCode.invalid_update_version)
    ]
    assert propose(controller, [1, 2], life=-1) == [PartitionAltered(ErrorCode.stale_broker_epoch)]
    assert controller.link.asked == []


def test_everyone_must_answer_or_time_out_before_the_client_is_answered(stage, controller):
    outcomes = create(controller)
    stage.settle()
    first, second = controller.link.take()
    first.on_reply(Acknowledged(ErrorCode.none))
    assert outcomes.codes == []
    second.on_reply(Acknowledged(ErrorCode.none))
    assert outcomes.codes == [{"orders": "none"}]
    assert first.timeout_ms == 1000


def test_a_validation_does_not_count_against_a_quota(stage, controller):
    counted, codes = [], []

    def admit(topic, partition_count):
        counted.append((topic, partition_count))

    def on_done(outcomes, _planned=None):
        codes.extend(outcome.code for outcome in outcomes.values())

    def ask(*, validate_only):
        only = {"validate_only": validate_only, "timeout_ms": 0, "on_done": on_done, "admit": admit}
        controller.requests.create_topics([NewTopic("new", 2, 1)], **only)
        stage.settle()
        controller.requests.create_partitions([("new", 5, None)], **only)
        stage.settle()

    ask(validate_only=True)
    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert counted == []
    ask(validate_only=False)
    ask(validate_only=True)
    assert counted == [("new", 2), ("new", 3)]


@pytest.mark.parametrize("requester", [QuotaClient("alice", "app"), None])
def test_automatically_created_topics_count_against_the_clients_quota(stage, controller, requester):
    asked = []

    def admit_of(client):
        def admit(topic, partition_count):
            asked.append((client, topic, partition_count))
            if topic == "over":
                raise Refused(ErrorCode.throttling_quota_exceeded)

        return admit

    requests = ControllerRequests(controller.driver, admit_of=admit_of)
    answers = []
    requests.on_topics_missed(CreateTopics(("within", "over"), requester), answers.append)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    stage.settle()

    (answer,) = answers
    codes = {each.topic: each.code for each in answer.outcomes}
    if requester is None:
        assert asked == []
        assert codes == dict.fromkeys(("within", "over"), ErrorCode.none)
    else:
        assert asked == [(requester, "within", 1), (requester, "over", 1)]
        assert codes == {
            "within": ErrorCode.none,
            "over": ErrorCode.throttling_quota_exceeded,
        }


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [(1000, "request_timed_out"), (5_000, "request_timed_out"), (5_001, "none")],
)
def test_a_topic_is_created_and_timed_out_when_a_broker_is_late(
    stage, controller, timeout_ms, code
):
    outcomes = create(controller, timeout_ms=timeout_ms)
    stage.settle()
    first, second = controller.link.take()
    first.on_reply(None)
    assert outcomes.codes == []
    second.on_reply(Acknowledged(ErrorCode.none))
    assert outcomes.codes == [{"orders": code}]
    assert controller.driver.controller.state.partition(ORDERS_0) is not None


def test_no_answer_waits_for_a_lost_broker(stage, controller):
    outcomes = create(controller)
    stage.settle()
    first, second = controller.link.take()
    next(m for m in stage.members if m.id == 2).session.client.expire()
    stage.settle()
    first.on_reply(Acknowledged(ErrorCode.none))
    second.on_reply(None)
    assert outcomes.codes == [{"orders": "none"}]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_timeout_is_answered_when_it_is_written(stage, controller, timeout_ms):
    """Kafka does the same: successful changes time out, failures are reported."""
    created = create(controller, timeout_ms=timeout_ms)
    stage.settle()
    assert created.codes == [{"orders": "request_timed_out"}]
    assert controller.session.client.exists(paths.topic("orders")) is not None
    assert len(controller.link.answer_all(Acknowledged(ErrorCode.none))) == 2

    again = create(controller, timeout_ms=timeout_ms)
    stage.settle()
    assert again.codes == [{"orders": "topic_already_exists"}]
    looked = create(controller, "other", timeout_ms=timeout_ms, validate_only=True)
    assert looked.codes == [{"other": "none"}]

    enlarged = Outcomes()
    controller.requests.create_partitions(
        [("orders", 3, None), ("missing", 3, None)],
        validate_only=False,
        timeout_ms=timeout_ms,
        on_done=enlarged,
    )
    deleted: list[Any] = []
    names = [("orders", None), ("missing", None)]
    controller.requests.delete_topics(names, timeout_ms, deleted.extend)
    stage.settle()
    assert enlarged.codes == [
        {"orders": "request_timed_out", "missing": "unknown_topic_or_partition"}
    ]
    assert [(name, outcome.code.name) for name, _, outcome in deleted] == [
        ("orders", "request_timed_out"),
        ("missing", "unknown_topic_or_partition"),
    ]
    assert controller.session.client.exists(paths.topic("orders")) is None


def test_new_partitions_and_deletions_time_out_when_a_broker_is_late(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    enlarged = Outcomes()
    controller.requests.create_partitions(
        [("orders", 3, None)], validate_only=False, timeout_ms=1000, on_done=enlarged
    )
    stage.settle()
    controller.link.answer_all(None)
    assert enlarged.codes == [{"orders": "request_timed_out"}]
    deleted: list[Any] = []
    controller.requests.delete_topics([("orders", None)], 1000, deleted.extend)
    stage.settle()
    controller.link.answer_all(None)
    assert [(name, outcome.code.name) for name, _, outcome in deleted] == [
        ("orders", "request_timed_out")
    ]


def test_a_broker_that_does_not_answer_is_sent_the_full_state_until_it_does(stage, controller):
    create(controller)
    stage.settle()
    first, second = controller.link.take()
    first.on_reply(Acknowledged(ErrorCode.none))
    second.on_reply(None)
    for _ in range(3):
        (again,) = controller.link.take()
        assert again.endpoint == second.endpoint
        assert again.timeout_ms == broker_updates.UPDATE_TIMEOUT_MS
        assert again.request.is_full
        again.on_reply(None)
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert controller.link.asked == []


def test_a_broker_that_misses_updates_is_resent_one(stage, controller):
    for number in range(20):
        create(controller, f"t{number}")
        stage.settle()
    controller.link.answer_all(None)
    assert len(controller.link.asked) == 2  # one for each of the two brokers
    controller.link.answer_all(None)
    assert len(controller.link.asked) == 2
    newest = {topic.name for topic in updates(controller)["control-2-100"].topics}
    assert newest == {f"t{number}" for number in range(20)}


def test_updates_are_not_resent_to_a_lost_broker(stage, controller):
    create(controller)
    stage.settle()
    missed = [asked for asked in controller.link.take() if asked.endpoint == "control-2-100"]
    next(m for m in stage.members if m.id == 2).session.client.expire()
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    missed[0].on_reply(None)
    assert controller.link.asked == []


def test_after_a_resignation_nothing_is_resent(stage, controller):
    create(controller)
    stage.settle()
    asked = controller.link.take()
    controller.driver.stop()
    for one in asked:
        one.on_reply(None)
    assert controller.link.asked == []


def test_a_broker_that_knows_a_newer_controller_makes_this_one_resign(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.stale_controller_epoch))
    assert not controller.driver.is_active
    stage.pass_time(500)
    assert controller.controller_epoch == 2


def test_controlled_shutdown_is_done_when_everyone_knows(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    leader = controller.driver.controller.state.partition(ORDERS_0).leader
    done = stop(controller, leader, epoch_of(controller, leader))
    for _ in ("the new leader", "everyone"):
        stage.settle()
        assert done == []
        controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert done == [ShutdownPrepared(True)]
    state = controller.driver.controller.state.partition(ORDERS_0)
    assert state.leader == ({1, 2} - {leader}).pop()


def test_a_broker_that_leads_nothing_may_stop_at_once(stage, controller):
    assert stop(controller, 2, epoch_of(controller, 2)) == [ShutdownPrepared(True)]


@pytest.mark.parametrize(("broker", "life"), [(1, -1), (1, 1), (7, 0)])
def test_controlled_shutdown_needs_the_current_broker_epoch(stage, controller, broker, life):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    epoch = epoch_of(controller, 1) + life
    assert stop(controller, broker, epoch) == [ShutdownPrepared(False)]
    stage.settle()
    assert controller.link.asked == []


def test_a_broker_that_refuses_an_update_is_sent_the_full_state_after_a_pause(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Refusal(ErrorCode.invalid_request, "malformed update"))
    assert controller.link.asked == []
    stage.pass_time(broker_updates.UPDATE_TIMEOUT_MS)
    assert [asked.request.is_full for asked in controller.link.asked] == [True, True]


def test_deleted_topics_are_announced_by_name(stage, controller):
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    deleted: list[Any] = []
    controller.requests.delete_topics([("orders", None)], 1000, deleted.extend)
    stage.settle()
    assert {update.deleted for update in updates(controller).values()} == {("orders",)}
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    assert [outcome.code for _, _, outcome in deleted] == [ErrorCode.none]


def test_a_plan_may_be_announced_after_a_resignation(stage, controller):
    controller.driver.resign()
    done: list[bool] = []
    tell: Callable[..., None] = controller.driver.updates.tell_everyone
    tell(Plan(), set(), done.append)
    assert done == [True]


def test_isr_proposals_during_a_write_share_one_operation(stage: Stage, controller: Member) -> None:
    enlarged = create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    controller.requests.create_partitions(
        [("orders", 300, None)], validate_only=False, timeout_ms=1_000, on_done=enlarged
    )
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))

    first = propose(controller, [leader_of(controller, 0)])
    others = [
        propose(controller, [leader_of(controller, number)], partition=number)
        for number in range(1, 300)
    ]
    again = propose(controller, [leader_of(controller, 7)], partition=7)
    stage.settle()

    assert [reply.code for (reply,) in [first, *others]] == [ErrorCode.none] * 300
    assert again == [PartitionAltered(ErrorCode.invalid_update_version)]
    sent = [asked.request for asked in controller.link.asked]
    sizes = [sum(len(t.partitions) for t in u.topics) for u in sent]
    # To two brokers: the first alone, then as many as an operation takes, and the rest.
    assert sorted(sizes) == [1, 1, 49, 49] + 10 * [50]


def test_waiting_isr_proposals_are_refused_when_the_controller_resigns(
    stage: Stage, controller: Member
) -> None:
    create(controller)
    stage.settle()
    controller.link.answer_all(Acknowledged(ErrorCode.none))
    first, second = propose(controller, [1]), propose(controller, [1])

    controller.driver.resign()
    stage.settle()

    refused = [PartitionAltered(ErrorCode.not_controller)]
    assert (first, second) == (refused, refused)
    assert controller.link.asked == []


def leader_of(member: Member, number: int) -> int:
    controller = member.driver.controller
    assert controller is not None
    state = controller.state.partition(TopicPartition("orders", number))
    assert state is not None
    return int(state.leader)


# -- events ----------------------------------------------------------------------------------------


def told(member: Member) -> list[tuple[str, str, int]]:
    """Kind, subject and count of the events since the last call."""
    return [(event.kind.value, event.subject, event.count) for event in member.events.take()]


def test_a_controller_reports_its_election_and_changes_of_brokers(stage, controller):
    assert told(controller) == [
        ("controller", "1", 1),
        ("broker-up", "1", 1),
        ("broker-up", "2", 1),
    ]
    create(controller, timeout_ms=0)
    stage.settle()
    state = controller.driver.controller.state.partition(ORDERS_0)
    assert told(controller) == []
    stage.members[1].session.client.expire()
    stage.settle()
    events = told(controller)
    if state.leader == 2:
        assert ("election", "orders", 1) in events
    assert {("broker-down", "2", 1), ("isr-shrink", "orders", 1)} <= set(events)
    stage.members[1].session.client.begin_again()
    stage.members[1].register()
    stage.settle()
    assert told(controller) == [("broker-up", "2", 1)]


def test_a_new_controller_reports_changes_of_brokers_that_it_knew(stage, controller):
    other = stage.members[1]
    other.known_brokers = dict(controller.driver.controller.state.brokers)
    other.driver.campaign()
    stage.settle()
    assert told(other) == []
    controller.session.client.expire()
    stage.settle()
    assert other.driver.is_active
    assert told(other) == [("controller", "2", 1), ("broker-down", "1", 1)]


def test_a_reloaded_state_is_not_reported_again(stage, controller, monkeypatch):
    told(controller)
    controller.known_brokers = dict(controller.driver.controller.state.brokers)
    with monkeypatch.context() as full:
        fill_the_registry(stage, full)
        stop(controller, BrokerId(2), epoch_of(controller, 2))
        stage.members[1].session.client.expire()
        stage.settle()
    stage.pass_time(500)
    assert controller.driver.is_active
    assert told(controller) == [("broker-down", "2", 1)]
