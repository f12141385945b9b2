import os
import socket
from dataclasses import replace

import pytest

from cluster.config import broker as keys
from cluster.config.listeners import of_listener
from cluster.coordinator.registry.client.registry_access import NOBODY
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import write_state
from cluster.launch import children
from cluster.launch import plan as planning
from cluster.launch.options import StartOptions
from cluster.launch.plan import make_plan
from cluster.launch.start import start
from cluster.model.errors import UserError
from cluster.runtime.ports import free_ports
from cluster.runtime.tls_context import server_context
from cluster.runtime.tls_options import StoreSource, TlsOptions
from cluster.supervisor.dead_sessions import registry_hosts
from cluster.supervisor.plan import ChildSpec, ClusterPlan, NewBroker, Reports
from tests.support import kafka_files

NO_NOTE = pytest.fail


@pytest.fixture
def settings_of_brokers(monkeypatch):
    """What `run_broker` would be given, by broker."""
    seen = []
    monkeypatch.setattr(
        children, "run_broker", lambda settings, run_dir, *reports: seen.append((settings, run_dir))
    )

    def collect(plan):
        for spec in plan.brokers:
            spec.run(Reports(NO_NOTE, NO_NOTE, NO_NOTE))  # type: ignore[arg-type]  # called by nobody
        return [settings for settings, _ in seen]

    return collect


def options(path, **chosen) -> StartOptions:
    usual = {"data_dir": path, "port": 0, "registry_port": 0, "has_dashboard": False}
    return StartOptions(**{**usual, **chosen})


def test_three_brokers_a_registry_and_a_dashboard_unless_told_otherwise(tmp_path):
    plan = make_plan(options(tmp_path, has_dashboard=True, dashboard_port=0), NO_NOTE)
    names = ["registry", "dashboard", "broker-0", "broker-1", "broker-2"]
    assert [spec.name for spec in plan.children] == names
    assert plan.dashboard_url == f"http://127.0.0.1:{plan.dashboard.port}/"
    assert plan.registry_address == plan.registry.address
    assert len(set(plan.bootstrap.split(","))) == 3


def test_no_dashboard_is_started_when_none_is_wanted(tmp_path):
    plan = make_plan(options(tmp_path), NO_NOTE)
    assert (plan.dashboard, plan.dashboard_url) == (None, None)


def test_a_taken_port_of_the_dashboard_costs_the_dashboard_only(tmp_path):
    notes = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        plan = make_plan(options(tmp_path, has_dashboard=True, dashboard_port=port), notes.append)
    assert plan.dashboard is None
    assert len(plan.brokers) == 3
    assert len(notes) == 1
    assert notes[0].startswith(f"There is no dashboard: port {port} is in use by ")
    assert notes[0].endswith(f"(pid {os.getpid()}); choose another --dashboard-port.")


def test_ports_of_the_last_start_are_wanted_again(tmp_path):
    first = make_plan(options(tmp_path, brokers=2, has_dashboard=True, dashboard_port=0), NO_NOTE)
    state = {
        "brokers": [
            {
                "id": each.broker_id,
                "slot": each.slot,
                "listeners": [listener._asdict() for listener in each.listeners],
            }
            for each in first.brokers
        ],
        "chosen_ports": first.chosen_ports,
    }
    write_state(DataDir(tmp_path).state_file, state)
    again = make_plan(StartOptions(tmp_path), NO_NOTE)
    assert again.bootstrap == first.bootstrap
    assert again.registry_address == first.registry_address
    assert again.dashboard_url == first.dashboard_url
    assert again.chosen_ports == first.chosen_ports

    notes = []
    with socket.create_server(("127.0.0.1", first.dashboard.port)):
        other = make_plan(StartOptions(tmp_path), notes.append)
        named = make_plan(StartOptions(tmp_path, port=0), lambda _: None)
    assert other.dashboard.port != first.dashboard.port
    assert notes[0].startswith(f"Port {first.dashboard.port} of the dashboard is in use by ")
    assert named.bootstrap != first.bootstrap
    with (
        socket.create_server(("127.0.0.1", first.brokers[1].port)),
        pytest.raises(UserError, match=r"\(broker 1, as at the last start\) is already in use by"),
    ):
        make_plan(StartOptions(tmp_path), NO_NOTE)


def test_another_port_is_taken_where_the_usual_one_of_the_dashboard_is_in_use(
    tmp_path, monkeypatch
):
    notes = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        monkeypatch.setattr(planning, "DASHBOARD_PORT", port)
        plan = make_plan(options(tmp_path, has_dashboard=True), notes.append)
    assert plan.dashboard.port != port
    assert notes == []


def test_an_address_of_another_machine_is_refused_for_the_dashboard(tmp_path):
    chosen = options(tmp_path, has_dashboard=True, dashboard_host="192.0.2.1", dashboard_port=0)
    with pytest.raises(UserError, match="use --dashboard-host"):
        make_plan(chosen, NO_NOTE)


def test_the_address_of_a_dashboard_on_ipv6_is_a_url(tmp_path):
    spec = ChildSpec("dashboard", "dashboard", "::1", 9292, lambda _reports: None)
    assert ClusterPlan(tmp_path, None, "", (), spec).dashboard_url == "http://[::1]:9292/"


@pytest.mark.parametrize(
    ("given", "has_password"),
    [({}, False), ({"secure": True}, True), ({"dashboard_host": "0.0.0.0"}, True)],
)
def test_the_dashboard_asks_for_a_password_where_others_would_get_more_than_is_theirs(
    tmp_path, given, has_password
):
    plan = make_plan(options(tmp_path, has_dashboard=True, dashboard_port=0, **given), NO_NOTE)
    path = tmp_path / "dashboard-password"
    assert path.exists() is has_password
    login = {"user": "milena", "password_file": str(path)}
    assert plan.dashboard_login == (login if has_password else None)


def test_each_broker_has_its_own_values_and_all_share_the_rest(tmp_path, settings_of_brokers):
    config = tmp_path / "server.properties"
    config.write_text("log.segment.bytes=1000\nnum.partitions=4\n")
    plan = make_plan(
        options(tmp_path, brokers=2, config=config, overrides=("num.partitions=5",)), NO_NOTE
    )
    brokers = settings_of_brokers(plan)
    assert [settings[keys.BROKER_ID] for settings in brokers] == [0, 1]
    for spec, settings in zip(plan.brokers, brokers, strict=True):
        assert settings[keys.LISTENERS][0].port == spec.port
        assert settings[keys.ADVERTISED_LISTENERS][0].port == spec.port
        assert settings[keys.LOG_DIRS] == (str(tmp_path / spec.name),)
        assert settings[keys.ZOOKEEPER_CONNECT] == plan.registry_address
        assert settings[keys.LOG_SEGMENT_BYTES] == 1000
        assert settings[keys.NUM_PARTITIONS] == 5
        assert settings[keys.DEFAULT_REPLICATION_FACTOR] == 2


def test_no_registry_is_started_when_an_external_one_is_given(tmp_path, settings_of_brokers):
    plan = make_plan(options(tmp_path, overrides=("zookeeper.connect=zk:2181/milena",)), NO_NOTE)
    assert plan.registry is None
    assert plan.registry_address == "zk:2181/milena"
    assert settings_of_brokers(plan)[0][keys.ZOOKEEPER_CONNECT] == "zk:2181/milena"


def test_a_stock_kafka_file_works_and_what_is_replaced_is_said(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("broker.id=0\nnum.io.threads=4\nlog.dirs=/tmp/kafka-logs\n")
    notes = []
    make_plan(options(tmp_path, config=config), notes.append)
    assert notes == [
        f"From {config}, `start` sets itself: broker.id.",
        "Each broker keeps its partitions in a directory of its own below /tmp/kafka-logs"
        " (--log-dirs . keeps them in the data directory).",
        "Without effect here: num.io.threads"
        " (one thread does a broker's work, and a few others have fixed tasks).",
    ]


def test_a_key_that_kafka_does_not_know_is_a_warning_with_its_line(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("\nconfluent.license=s3cret\nlog.segmnt.bytes=1\nnum.partitions=3\n")
    notes = []
    make_plan(options(tmp_path, config=config), notes.append)
    assert notes == [
        f"Warning: {config}: unknown broker settings are left out: confluent.license (line 2),"
        " log.segmnt.bytes (line 3; did you mean log.segment.bytes?)."
    ]


def test_values_without_effect_are_warned_of_by_name_from_a_file_and_from_an_override(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("replica.fetch.min.bytes=2\nlog.segment.bytes=1000\n")
    notes = []
    make_plan(
        options(tmp_path, config=config, overrides=("controlled.shutdown.max.retries=4",)),
        notes.append,
    )
    fetched, retries = sorted(notes, reverse=True)
    assert fetched.startswith("Warning: replica.fetch.min.bytes (accepted, without effect yet: ")
    assert retries.startswith("Warning: controlled.shutdown.max.retries (accepted, without effect")


@pytest.mark.parametrize("brokers", [1, 3])
def test_kafkas_single_node_file_starts_brokers_that_advertise_its_host(
    tmp_path, settings_of_brokers, brokers
):
    config = tmp_path / "server.properties"
    config.write_text(kafka_files.SERVER_4_1)
    notes = []
    plan = make_plan(options(tmp_path, brokers=brokers, config=config), notes.append)
    assert f"From {config}, `start` sets itself: node.id." in notes
    (warning,) = [note for note in notes if note.startswith("Warning")]
    assert warning.startswith("Warning: inter.broker.listener.name (")
    for spec, settings in zip(plan.brokers, settings_of_brokers(plan), strict=True):
        (advertised,) = settings[keys.ADVERTISED_LISTENERS]
        assert (advertised.host, advertised.port) == ("localhost", spec.port)
        assert settings[keys.BROKER_ID] == spec.broker_id


def test_a_host_on_the_command_line_is_stronger_than_the_files(tmp_path, settings_of_brokers):
    config = tmp_path / "server.properties"
    config.write_text(kafka_files.BROKER_4_1)
    chosen = options(tmp_path, brokers=1, config=config, advertised_host="me.example")
    (settings,) = settings_of_brokers(make_plan(chosen, lambda note: None))
    assert settings[keys.ADVERTISED_LISTENERS][0].host == "me.example"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kafka_files.CONTROLLER_4_1, r"server\.properties, line 1: process\.roles=controller is"),
        ("\nlog.segment.bytes=a", r"server\.properties, line 2: log\.segment\.bytes=a is not"),
        ("\n\nnum.partitions many", r"server\.properties, line 3: num\.partitions=many is not"),
        ("listeners=SSL://:9093", r"server\.properties, line 1: the listener SSL needs a private"),
    ],
)
def test_mistakes_in_a_file_are_refused_with_their_line(tmp_path, text, message):
    config = tmp_path / "server.properties"
    config.write_text(text)
    with pytest.raises(UserError, match=message):
        make_plan(options(tmp_path, config=config), NO_NOTE)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"overrides": ("broker.id=1",)}, "`start` numbers them"),
        ({"overrides": ("listeners=A://:1",)}, "needs an entry for A in"),
        ({"overrides": ("advertised.listeners=PLAINTEXT://a:1",)}, "--advertised-host"),
        ({"overrides": ("log.segmnt.bytes=1",)}, "did you mean log.segment.bytes"),
        ({"overrides": ("num.partitions",)}, "key=value"),
        ({"port": 65_535}, r"65536 \(broker 1\) is too high"),
    ],
)
def test_mistakes_are_refused_before_anything_starts(tmp_path, chosen, message):
    with pytest.raises(UserError, match=message):
        make_plan(options(tmp_path, **chosen), NO_NOTE)


def test_brokers_on_every_address_are_advertised_where_clients_reach_them(
    tmp_path, settings_of_brokers
):
    plan = make_plan(options(tmp_path, brokers=1, host="0.0.0.0"), NO_NOTE)
    assert settings_of_brokers(plan)[0][keys.ADVERTISED_LISTENERS][0].host == "127.0.0.1"
    named = make_plan(
        options(tmp_path, brokers=1, host="0.0.0.0", advertised_host="me.example"), NO_NOTE
    )
    (_, settings) = settings_of_brokers(named)
    assert settings[keys.ADVERTISED_LISTENERS][0].host == "me.example"


def test_the_number_of_brokers_is_remembered_and_never_falls(tmp_path):
    write_state(DataDir(tmp_path).state_file, {"brokers": [{}, {}]})
    assert len(make_plan(options(tmp_path), NO_NOTE).brokers) == 2
    assert len(make_plan(options(tmp_path, brokers=4), NO_NOTE).brokers) == 4
    with pytest.raises(UserError, match="holds the data of 2 brokers"):
        make_plan(options(tmp_path, brokers=1), NO_NOTE)


def test_a_directory_with_other_files_is_not_taken(tmp_path):
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(UserError, match="not Milena's"):
        start(options(tmp_path), 0, NO_NOTE)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def log_dirs_of(plan) -> list[list[str]]:
    return [[str(path) for path in spec.log_dirs] for spec in plan.brokers]


@pytest.mark.parametrize("way", ["option", "override", "file"])
def test_every_broker_has_directories_of_its_own_below_each_log_dir(
    tmp_path, settings_of_brokers, way
):
    elsewhere = tmp_path / "elsewhere"
    named = f"disk1,{elsewhere}"
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={named}\nlog.dir=/not/used\n")
    ways: dict[str, dict[str, object]] = {
        "option": {"log_dirs": named},
        "override": {"overrides": (f"log.dirs={named}",)},
        "file": {"config": config},
    }
    notes = []
    plan = make_plan(options(tmp_path / "data", brokers=2, **ways[way]), notes.append)
    expected = [
        [str(tmp_path / "data" / "disk1" / name), str(elsewhere / name)]
        for name in ("broker-0", "broker-1")
    ]
    assert log_dirs_of(plan) == expected
    assert [list(s[keys.LOG_DIRS]) for s in settings_of_brokers(plan)] == expected
    assert any(named in note for note in notes) == (way != "option")


def test_log_dirs_are_remembered_and_none_with_replicas_is_left_out(tmp_path):
    files = DataDir(tmp_path)
    first = make_plan(options(tmp_path, brokers=1, log_dirs="a,b"), NO_NOTE)
    write_state(files.state_file, {"brokers": [{"log_dirs": log_dirs_of(first)[0]}]})
    again = make_plan(options(tmp_path, brokers=2), NO_NOTE)
    assert log_dirs_of(again)[0] == log_dirs_of(first)[0]
    assert log_dirs_of(again)[1] == [str(tmp_path / "a/broker-1"), str(tmp_path / "b/broker-1")]
    more = make_plan(options(tmp_path, brokers=1, log_dirs="a,b,c"), NO_NOTE)
    assert len(log_dirs_of(more)[0]) == 3

    (tmp_path / "b" / "broker-0").mkdir(parents=True)
    with pytest.raises(UserError, match=r"b/broker-0 holds replicas, which would be lost"):
        make_plan(options(tmp_path, brokers=1, log_dirs="a"), NO_NOTE)


def test_brokers_get_their_racks_and_keep_them(tmp_path, settings_of_brokers):
    files = DataDir(tmp_path)
    plan = make_plan(options(tmp_path, brokers=3, racks="a,b"), NO_NOTE)
    assert [spec.rack for spec in plan.brokers] == ["a", "b", "a"]
    assert [each[keys.BROKER_RACK] for each in settings_of_brokers(plan)] == ["a", "b", "a"]
    write_state(files.state_file, {"brokers": [{"rack": spec.rack} for spec in plan.brokers]})
    assert [spec.rack for spec in make_plan(options(tmp_path), NO_NOTE).brokers] == ["a", "b", "a"]
    config = tmp_path / "server.properties"
    config.write_text("broker.rack=x\n")
    plan = make_plan(options(tmp_path, config=config), NO_NOTE)
    assert [spec.rack for spec in plan.brokers] == ["x", "x", "x"]


def test_a_data_directory_that_was_moved_or_copied_keeps_its_partitions_in_itself(tmp_path):
    old, new, disk = tmp_path / "old", tmp_path / "new", tmp_path / "disk"
    first = make_plan(options(old, brokers=1, log_dirs=f".,a,{disk}"), NO_NOTE)
    state = {"data_dir": str(old), "brokers": [{"log_dirs": log_dirs_of(first)[0]}]}
    for path in (old, new):  # a copy; the original is still there
        (path / "broker-0").mkdir(parents=True)
        write_state(DataDir(path).state_file, state)
    notes = []
    found = make_plan(options(new, brokers=1), notes.append)
    assert notes == [
        f"Warning: {new} was {old} at the last start, and its brokers keep using {disk}: do not run"
        " both if one is a copy of the other."
    ]
    make_plan(options(old, brokers=1), NO_NOTE)
    assert log_dirs_of(found) == [
        [str(new / "broker-0"), str(new / "a" / "broker-0"), str(disk / "broker-0")]
    ]


@pytest.mark.parametrize(
    ("named", "message"), [(" ,", "log.dirs is empty"), ("a,b,a", "names a twice")]
)
def test_log_dirs_without_sense_are_refused(tmp_path, named, message):
    with pytest.raises(UserError, match=message):
        make_plan(options(tmp_path, log_dirs=named), NO_NOTE)


def test_a_log_directory_of_kafka_is_not_built_in(tmp_path):
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "meta.properties").write_text("version=0\nbroker.id=0\n")
    with pytest.raises(UserError, match="is a log directory of a broker"):
        make_plan(options(tmp_path, log_dirs="kafka"), NO_NOTE)


NAMED = (
    "listeners=A://:9092,B://0.0.0.0:9192",
    "listener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=SCRAM-SHA-256",
)


def test_each_broker_has_every_listener_with_a_port_of_its_own(tmp_path, settings_of_brokers):
    plan = make_plan(options(tmp_path, brokers=2, overrides=NAMED), lambda note: None)
    ports = {each.port for spec in plan.brokers for each in spec.listeners}
    assert len(ports) == 4
    for spec, settings in zip(plan.brokers, settings_of_brokers(plan), strict=True):
        a, b = spec.listeners
        assert (a.name, a.protocol, a.listens_on, a.host) == (
            *("A", "PLAINTEXT"),
            *("127.0.0.1", "127.0.0.1"),
        )
        assert (b.name, b.protocol, b.listens_on, b.host) == (
            *("B", "SASL_PLAINTEXT"),
            *("0.0.0.0", "127.0.0.1"),
        )
        assert (spec.host, spec.port) == (a.host, a.port)
        assert [str(each) for each in settings[keys.LISTENERS]] == [
            f"A://127.0.0.1:{a.port}",
            f"B://0.0.0.0:{b.port}",
        ]
        assert [str(each) for each in settings[keys.ADVERTISED_LISTENERS]] == [
            f"A://127.0.0.1:{a.port}",
            f"B://127.0.0.1:{b.port}",
        ]


def test_a_port_that_is_taken_is_named_with_its_listener(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        overrides = (f"listeners=A://:0,B://:{port}", *NAMED[1:])
        with pytest.raises(UserError, match=rf"port {port} \(broker 0, B\) is already in use"):
            make_plan(options(tmp_path, brokers=1, port=None, overrides=overrides), NO_NOTE)


def test_a_secure_cluster_has_one_sasl_ssl_listener_with_certificates_and_an_authorizer(
    tmp_path, settings_of_brokers
):
    notes: list[str] = []
    overrides = ("super.users=User:eve", "sasl.enabled.mechanisms=SCRAM-SHA-256")
    plan = make_plan(options(tmp_path, brokers=2, secure=True, overrides=overrides), notes.append)
    brokers = settings_of_brokers(plan)
    assert plan.security is not None
    for broker, (spec, settings) in enumerate(zip(plan.brokers, brokers, strict=True)):
        (listener,) = settings[keys.LISTENERS]
        (advertised,) = settings[keys.ADVERTISED_LISTENERS]
        assert (listener.name, listener.port) == ("SASL_SSL", spec.port)
        assert (advertised.name, advertised.port) == ("SASL_SSL", spec.port)
        assert settings[keys.SSL_KEYSTORE_LOCATION] == str(plan.security.key_store(broker))
        assert settings[keys.SASL_ENABLED_MECHANISMS] == ("SCRAM-SHA-256", "SCRAM-SHA-512")
        assert settings[keys.AUTHORIZER_CLASS_NAME]
        assert settings[keys.SUPER_USERS] == {"User:admin", "User:eve"}
        assert settings[keys.ZOOKEEPER_SET_ACL]
        assert settings[keys.REGISTRY_AUTH]


def test_a_registry_that_others_reach_has_tls_and_takes_logins_only(tmp_path, settings_of_brokers):
    plan = make_plan(options(tmp_path, brokers=1, secure=True, registry_host="0.0.0.0"), NO_NOTE)
    assert plan.registry.listens_on == "0.0.0.0"
    assert plan.registry_address == f"127.0.0.1:{plan.registry.port}"
    assert plan.registry_access.scheme == "sasl"
    assert plan.registry_access.tls is not None
    (settings,) = settings_of_brokers(plan)
    assert settings[keys.ZOOKEEPER_SSL_CLIENT_ENABLE] is True
    names = {"IP:127.0.0.1", "DNSName:localhost", "IP:::1"}
    own = TlsOptions(StoreSource("keystore", "PEM", str(plan.security.registry_key_store)))
    assert names <= set(server_context(own).host_names())


@pytest.mark.parametrize(
    ("chosen", "advice"),
    [
        ({"registry_host": "0.0.0.0"}, "add --secure"),
        ({"registry_host": "registry.example"}, "add --secure"),
        (
            {"registry_host": "0.0.0.0", "secure": True, "overrides": ("zookeeper.connect=zk:1",)},
            "leave one of them out",
        ),
    ],
)
def test_a_registry_without_security_stays_on_loopback(tmp_path, chosen, advice):
    with pytest.raises(UserError, match=advice) as refusal:
        make_plan(options(tmp_path, **chosen), lambda note: None)
    assert "\n" not in str(refusal.value)
    assert not DataDir(tmp_path).security.exists()


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_a_registry_on_loopback_needs_nothing(tmp_path, host):
    plan = make_plan(options(tmp_path, registry_host=host), NO_NOTE)
    assert plan.registry_access == NOBODY
    assert registry_hosts(plan.registry_address) == [(host, plan.registry.port)]


def test_a_cluster_that_was_secure_once_remains_so_and_says_so(tmp_path):
    first = make_plan(options(tmp_path, secure=True), NO_NOTE)
    write_state(DataDir(tmp_path).state_file, {"secure": True, "brokers": [{}, {}, {}]})
    notes: list[str] = []
    second = make_plan(options(tmp_path), notes.append)
    assert second.security == first.security
    assert any("holds a secure cluster" in note for note in notes)


def test_another_cluster_has_no_secrets(tmp_path):
    assert make_plan(options(tmp_path), NO_NOTE).security is None
    assert not DataDir(tmp_path).security.exists()


def test_a_secure_cluster_may_have_other_listeners_beside(tmp_path):
    more = ("listeners=SSL://:9093,SASL_SSL://:9092",)
    plan = make_plan(options(tmp_path, secure=True, overrides=more), lambda note: None)
    for spec in plan.brokers:
        _, for_tools = spec.listeners
        assert (for_tools.name, for_tools.port) == ("SASL_SSL", spec.port)


def test_a_secure_cluster_without_a_secure_listener_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"need one with the protocol SASL_SSL: add SASL_SSL://"):
        make_plan(options(tmp_path, secure=True, overrides=("listeners=SSL://:1",)), NO_NOTE)


def test_a_file_of_a_kafka_broker_with_tls_logins_and_acls_is_taken_as_it_is(
    tmp_path, settings_of_brokers
):
    config = tmp_path / "server.properties"
    config.write_text(kafka_files.SECURE_SERVER_3_9)
    notes: list[str] = []
    plan = make_plan(options(tmp_path, brokers=3, config=config), notes.append)
    for spec, settings in zip(plan.brokers, settings_of_brokers(plan), strict=True):
        assert [(each.name, each.protocol) for each in spec.listeners] == [
            ("INTERNAL", "SASL_PLAINTEXT"),
            ("CLIENTS", "SASL_SSL"),
            ("CERTIFIED", "SSL"),
        ]
        assert [each.host for each in settings[keys.ADVERTISED_LISTENERS]] == ["localhost"] * 3
        certified = of_listener(settings, "CERTIFIED")
        assert certified[keys.SSL_CLIENT_AUTH] == "required"
        assert certified[keys.SSL_KEYSTORE_PASSWORD] == "store-secret"
        assert of_listener(settings, "CLIENTS")[keys.SASL_ENABLED_MECHANISMS] == ("SCRAM-SHA-512",)
    assert not [note for note in notes if "secret" in note]
    left_out = " ".join(note for note in notes if note.startswith("Without effect here"))
    assert "ssl.endpoint.identification.algorithm" in left_out
    assert "sasl.login.callback.handler.class" in left_out


def test_a_file_of_settings_whose_passwords_others_can_read_is_warned_of(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("num.partitions=3\n")
    config.chmod(0o644)
    notes: list[str] = []
    make_plan(options(tmp_path, config=config), notes.append)
    assert not [note for note in notes if "can read" in note]
    config.write_text("password.encoder.secret=s3cret\n")
    make_plan(options(tmp_path, config=config), notes.append)
    (warning,) = [note for note in notes if "can read" in note]
    assert warning == (
        f"Warning: everybody can read the passwords in {config}: run `chmod 600 {config}`."
    )


def test_a_password_on_the_command_line_is_warned_of_without_it(tmp_path):
    notes: list[str] = []
    overrides = ("password.encoder.secret=s3cret", "num.partitions=3")
    make_plan(options(tmp_path, overrides=overrides), notes.append)
    assert [note for note in notes if "s3cret" in note] == []
    (warning,) = [note for note in notes if "on the command line" in note]
    assert "password.encoder.secret" in warning
    assert "num.partitions" not in warning


def test_a_secure_cluster_at_somebody_elses_registry_protects_znodes_if_it_logs_in_there(
    tmp_path, settings_of_brokers
):
    elsewhere = "zookeeper.connect=zk:2181"
    login = "milena.registry.auth=digest:brokers:secret"
    protected = []
    for name, overrides in (("a", (elsewhere,)), ("b", (elsewhere, login))):
        (tmp_path / name).mkdir()
        chosen = options(tmp_path / name, brokers=1, secure=True, overrides=overrides)
        (settings,) = settings_of_brokers(make_plan(chosen, lambda _note: None))[-1:]
        protected.append(settings[keys.ZOOKEEPER_SET_ACL])
    assert protected == [False, True]


SASL_LISTENER = "listeners=SASL_PLAINTEXT://:0"
SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-512"
AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


@pytest.mark.parametrize(
    "guard",
    [
        SASL_LISTENER,
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        AUTHORIZER,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ],
)
def test_start_with_sasl_or_acls_closes_registry_and_data_directory(
    tmp_path, settings_of_brokers, guard
):
    tmp_path.chmod(0o755)
    files = DataDir(tmp_path)
    plan = make_plan(
        options(tmp_path, has_dashboard=True, overrides=(guard, SCRAM)), lambda _note: None
    )
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert files.security.stat().st_mode & 0o777 == 0o700
    assert files.registry_auth_file.stat().st_mode & 0o777 == 0o600
    assert plan.registry_access.scheme == "sasl"
    assert plan.dashboard.password_file == files.dashboard_password
    for settings in settings_of_brokers(plan):
        assert settings[keys.REGISTRY_AUTH] == plan.registry_access.text
    again = make_plan(options(tmp_path, overrides=(guard, SCRAM)), lambda _note: None)
    assert again.registry_access == plan.registry_access


def test_start_without_sasl_and_acls_leaves_registry_and_data_directory_open(tmp_path):
    tmp_path.chmod(0o755)
    overrides = ("listeners=PLAINTEXT://:0", "authorizer.class.name=")
    plan = make_plan(options(tmp_path, overrides=overrides), NO_NOTE)
    assert plan.registry_access == NOBODY
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert not DataDir(tmp_path).security.exists()


def test_start_that_is_refused_leaves_the_registry_open(tmp_path):
    with pytest.raises(UserError, match=r"num\.partitions"):
        make_plan(options(tmp_path, overrides=(AUTHORIZER, "num.partitions=no")), lambda _: None)
    assert make_plan(options(tmp_path), NO_NOTE).registry_access == NOBODY


def test_start_without_sasl_after_one_with_it_keeps_the_login_and_says_so(tmp_path):
    first = make_plan(options(tmp_path, overrides=(SASL_LISTENER, SCRAM)), lambda _note: None)
    notes: list[str] = []
    second = make_plan(options(tmp_path), notes.append)
    assert second.registry_access == first.registry_access
    (note,) = notes
    assert str(DataDir(tmp_path).registry_auth_file.name) in note
    assert "remove that file" in note
    DataDir(tmp_path).registry_auth_file.unlink()
    assert make_plan(options(tmp_path), NO_NOTE).registry_access == NOBODY


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ((), "set milena.registry.auth and zookeeper.set.acl=true"),
        (("milena.registry.auth=digest:brokers:secret",), "set zookeeper.set.acl=true"),
        (("milena.registry.auth=digest:brokers:secret", "zookeeper.set.acl=true"), None),
        (("zookeeper.ssl.client.enable=true", "zookeeper.ssl.keystore.location=/own.pem"), None),
    ],
)
def test_start_with_acls_warns_of_an_open_registry_of_others(tmp_path, more, missing):
    notes: list[str] = []
    overrides = ("zookeeper.connect=zk:2181/milena", AUTHORIZER, *more)
    make_plan(options(tmp_path, overrides=overrides), notes.append)
    warnings = [note for note in notes if note.startswith("WARNING")]
    assert len(warnings) == (missing is not None)
    for warning in warnings:
        assert "zk:2181/milena" in warning
        assert missing in warning
        assert "secret" not in warning


def test_brokers_have_the_ids_of_the_command_line(tmp_path, settings_of_brokers):
    base = free_ports(8)
    plan = make_plan(options(tmp_path, broker_ids="5,1", port=base), NO_NOTE)
    assert [(each.name, each.broker_id, each.port) for each in plan.brokers] == [
        ("broker-1", 1, base),
        ("broker-5", 5, base + 1),
    ]
    seen = settings_of_brokers(plan)
    assert [each[keys.BROKER_ID] for each in seen] == [1, 5]
    assert [each[keys.LOG_DIRS] for each in seen] == [
        (str(tmp_path / "broker-1"),),
        (str(tmp_path / "broker-5"),),
    ]


def test_a_broker_keeps_its_port_when_another_one_is_gone(tmp_path):
    base = free_ports(8)
    known = [{"id": 0, "slot": 0}, {"id": 2, "slot": 2}]
    write_state(DataDir(tmp_path).state_file, {"brokers": known})
    plan = make_plan(options(tmp_path, port=base), NO_NOTE)
    assert [(each.broker_id, each.port, each.slot) for each in plan.brokers] == [
        (0, base, 0),
        (2, base + 2, 2),
    ]


def grown(plan, broker, rack=None):
    return plan.grow(NewBroker(broker, rack), plan.brokers)


def test_a_broker_is_added_with_the_ports_directories_and_rack_that_a_start_would_choose(
    tmp_path, settings_of_brokers
):
    base = free_ports(8)
    given = {"brokers": 2, "port": base, "log_dirs": "a,b", "racks": "x,y"}
    plan = make_plan(options(tmp_path, **given), NO_NOTE)
    added = grown(plan, 7)
    assert (added.name, added.broker_id, added.slot, added.port) == ("broker-7", 7, 2, base + 2)
    assert added.rack == "x"
    plan = replace(plan, brokers=(plan.brokers[1], added))
    assert [grown(plan, 8, "z").port, grown(plan, 8, "z").rack] == [base, "z"]
    assert grown(plan, 8, "").rack is None
    seen = settings_of_brokers(plan)
    assert seen[1][keys.LOG_DIRS] == (str(tmp_path / "a/broker-7"), str(tmp_path / "b/broker-7"))
    assert seen[1][keys.ZOOKEEPER_CONNECT] == seen[0][keys.ZOOKEEPER_CONNECT]
    assert (seen[1][keys.BROKER_ID], seen[1][keys.BROKER_RACK]) == (7, "x")


def test_ports_of_an_added_broker_differ_from_those_of_all_listeners(tmp_path):
    base = free_ports(8)
    listeners = (
        f"listeners=A://:{base},B://:{base + 2}",
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
    )
    plan = make_plan(options(tmp_path, brokers=2, port=None, overrides=listeners), NO_NOTE)
    added = grown(plan, 2)
    assert [each.port for each in added.listeners] == [base + 4, base + 6]
    known = [{"id": each.broker_id, "slot": each.slot} for each in (*plan.brokers, added)]
    write_state(DataDir(tmp_path).state_file, {"brokers": known})
    again = make_plan(options(tmp_path, port=None, overrides=listeners), NO_NOTE)
    assert again.brokers[2].listeners == added.listeners


def test_an_added_broker_of_a_secure_cluster_has_a_certificate(tmp_path):
    plan = make_plan(options(tmp_path, brokers=1, secure=True), NO_NOTE)
    grown(plan, 5)
    assert plan.security.key_store(5).exists()


@pytest.mark.parametrize(
    ("overrides", "rack", "message"),
    [
        (("broker.rack=x",), "y", "is the rack of every broker"),
        (("advertised.listeners=PLAINTEXT://h:80",), None, "cannot be the same for several"),
    ],
)
def test_a_broker_that_settings_have_no_place_for_is_not_added(tmp_path, overrides, rack, message):
    plan = make_plan(options(tmp_path, brokers=1, overrides=overrides), NO_NOTE)
    with pytest.raises(UserError, match=message):
        grown(plan, 1, rack)


def test_ids_that_are_generated_for_other_brokers_are_not_given(tmp_path):
    with pytest.raises(UserError, match="must not be greater than reserved"):
        make_plan(options(tmp_path, broker_ids="1-2,1001"), NO_NOTE)
    given = {"broker_ids": "1001", "overrides": ("broker.id.generation.enable=false",)}
    assert make_plan(options(tmp_path, **given), NO_NOTE).brokers[0].broker_id == 1001
    plan = make_plan(options(tmp_path, broker_ids="3-4"), NO_NOTE)
    assert plan.grow(NewBroker(None, None, (6, 1001)), plan.brokers).broker_id == 7
    with pytest.raises(UserError, match="must not be greater than reserved"):
        grown(plan, 1001)
