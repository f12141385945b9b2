"""A cluster of `start --secure`: every command finds its way by the data directory alone."""

import contextlib
import json
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from cluster.client.security import ClientSecurity, Servers
from cluster.client.security_properties import client_security
from cluster.client.socket_client import SocketClient
from cluster.config.properties_file import read_properties_file
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.registry_access import RegistryAccess
from cluster.dashboard.cluster_sources import ClusterSources
from cluster.datadir.paths import CLIENT_FILES, REGISTRY_JAAS, DataDir
from cluster.model.errors import UserError
from cluster.model.security import SecurityProtocol
from cluster.runtime.tls_options import StoreSource, TlsClientOptions
from tests.support.running_cluster import Cluster
from tests.support.waiting import DEADLINE_S, wait_until

BROKERS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir = tmp_path_factory.mktemp("secure") / "data"
    with Cluster(
        data_dir, brokers=BROKERS, secure=True, registry_host="0.0.0.0", dashboard=True
    ) as running:
        running.command("topics", "--create", "--topic", "orders", "--replication-factor", "2")
        fed(running, "produce", "--topic", "orders", given="one\ntwo\n")
        yield running


def files(cluster: Cluster) -> DataDir:
    return DataDir(cluster.data_dir)


def fed(cluster: Cluster, *words: str, given: str) -> subprocess.CompletedProcess[str]:
    """A command with a text on stdin, whatever its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "cluster", *words, "--data-dir", str(cluster.data_dir)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_user_without_rights_is_told_which_rule_to_add(cluster, tmp_path):
    login = tmp_path / "eve.properties"
    cluster.command("users", "add", "eve", "--generate", "--client-config", str(login))
    as_eve = ("--command-config", str(login))
    told: list[str] = []

    def is_refused() -> bool:
        done = cluster.command("topics", "create", "of-eve", *as_eve, check=False)
        told.append(done.stderr.strip())
        return "to allow it: " in done.stderr

    wait_until(is_refused, "the brokers to know the user")
    command = told[-1].rpartition("to allow it: ")[2]
    words = shlex.split(command)
    assert words[words.index("acls") :] == shlex.split(
        "acls --add --allow-principal User:eve --operation Create --topic of-eve"
    )
    cluster.command(*words[words.index("acls") :])
    wait_until(
        lambda: cluster.command("topics", "create", "of-eve", *as_eve, check=False).returncode == 0,
        "the rule to count",
    )
    produced = fed(cluster, "produce", "of-eve", *as_eve, given="one\ntwo\n")
    assert produced.returncode == 1
    assert produced.stderr.count("to allow it: ") == 1
    (remedy,) = re.findall("to allow it: (.*)", produced.stderr)
    words = shlex.split(remedy)
    cluster.command(*words[words.index("acls") :])
    wait_until(
        lambda: fed(cluster, "produce", "of-eve", *as_eve, given="one\n").returncode == 0,
        "the rule to count",
    )


def secrets_of(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = json.loads((files(cluster).security / "passwords.json").read_text())
    registry = (files(cluster).security / "registry.auth").read_text().strip()
    return {**found, "registry": registry.rpartition(":")[2]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("status", "controller is broker"),
        ("status --json", '"secure": true'),
        ("topics --list", "orders"),
        ("topics --describe --topic orders", "Leader: "),
        ("consume --topic orders --from-beginning --max-messages 2", "one\ntwo\n"),
        ("consume --topic orders --group readers --from-beginning --max-messages 2", "one\ntwo\n"),
        ("configs --describe --topic orders --all", "retention.ms="),
        ("client-metrics --show", "No subscription asks for any"),
        ("configs --describe --entity-type brokers --entity-name 1 --all", "log.retention.ms="),
        ("configs --describe --entity-type broker-loggers --entity-name 1", "="),
        ("configs --describe --entity-type users", "user-principal 'admin' are SCRAM-SHA-512="),
        ("configs --alter --topic orders --add-config retention.ms=7200000", "Completed"),
        ("groups --list", ""),
        ("groups --describe --all-groups", ""),
        ("transactions list", "TransactionalId"),
        ("transactions explain", "Nothing holds read_committed consumers back"),
        ("transactions explain --topic orders", "Nothing holds read_committed consumers back"),
        ("transactions describe-producers --topic orders --partition 0", "ProducerId"),
        ("log-dirs", "orders "),
        ("log-dirs --describe --json", '"partition":"orders-0"'),
        ("delete-records --topic orders --partition 0 --before-offset 0", "low_watermark: 0"),
        (
            "partitions elect-leaders --election-type preferred --topic orders --partition 0",
            "Valid replica already elected for partitions orders-0",
        ),
        ("partitions reassign --list", "No partition reassignments found."),
        ("partitions balance", "Replicas"),
        ("metrics --match BytesIn", "BytesInPerSec"),
        ("load-test --num-records 200 --throughput 2000 --consumers 1", "200 of 200 records"),
    ],
)
def test_a_command_needs_the_data_directory_alone(cluster, words, told):
    assert told in cluster.command(*words.split()).stdout


def test_the_dashboard_asks_for_the_password_in_the_data_directory(cluster):
    url = cluster.status()["dashboard"]
    path = files(cluster).dashboard_password
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    password = path.read_text().strip()
    with httpx.Client(base_url=url, timeout=DEADLINE_S) as browser:
        for asked in ("/", "/api/now", "/api/live", "/metrics", "/static/app.js"):
            assert browser.get(asked).status_code == 401, asked
        wrong = browser.post("/api/brokers/0/kill", auth=("milena", f"{password}x"))
        assert wrong.status_code == 401
        owner = ("milena", password)
        assert browser.get("/api/now", auth=owner).json()["cluster"]["state"] == "up"
        assert "kafka_server" in browser.get("/metrics", auth=owner).text
    text, as_json = cluster.command("status").stdout, cluster.command("status", "--json").stdout
    assert f"DASHBOARD={url}\n  (asks for user milena and the password in {path})" in text
    assert json.loads(as_json)["dashboard_login"] == {
        "user": "milena",
        "password_file": str(path),
    }
    log = cluster.log_text("dashboard")
    assert not [each for each in (text, as_json, log) if password in each]


def comes_to_list(cluster: Cluster, words: str, wanted: str) -> None:
    """Brokers learn of a change one after the other."""
    wait_until(
        lambda: wanted in cluster.command(*words.split()).stdout, f"`{words}` to have {wanted}"
    )


def test_quotas_acls_and_users_are_changed_and_listed(cluster):
    limit = "--client-id loader --producer-byte-rate"
    cluster.command(*f"quotas set {limit} 1MiB".split())
    comes_to_list(cluster, "quotas list", "loader")
    cluster.command(*f"quotas unset {limit}".split())
    rule = "--allow-principal User:bob --producer --topic others"
    cluster.command(*f"acls --add {rule}".split())
    comes_to_list(cluster, "acls --list --topic others", "User:bob")
    cluster.command(*f"acls --remove {rule} --force".split())
    made = cluster.command("users", "add", "bob", "--generate").stdout
    assert "Its password is " in made
    comes_to_list(cluster, "users list", "bob")
    assert "Completed removing user bob" in cluster.command("users", "delete", "bob").stdout


def from_registry(cluster: Cluster, *words: str) -> str:
    """What the command `registry` prints, which is told the data directory alone."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster", "registry", "--data-dir", str(cluster.data_dir), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_the_registry_is_read_with_the_login_of_the_data_directory(cluster):
    assert "SCRAM-SHA-512" in from_registry(cluster, "get", "/config/users/admin")


def registry_access(cluster: Cluster) -> RegistryAccess:
    """The login from the registry's client files, and the identity of brokers."""
    written = read_properties_file(files(cluster).registry_properties).texts
    store = {name: written[f"zookeeper.ssl.truststore.{name}"] for name in ("type", "location")}
    password = written["zookeeper.ssl.truststore.password"]
    tls = TlsClientOptions(StoreSource("truststore", **store, password=password))
    login = (files(cluster).security / "registry.auth").read_text().strip()
    assert login.rpartition(":")[2] in (files(cluster).clients / REGISTRY_JAAS).read_text()
    return RegistryAccess.parse(login, tls)


def test_the_registry_takes_tls_and_logins_only(cluster):
    def is_served(access: RegistryAccess, timeout_s: float = 20) -> bool:
        client = KazooClient(f"127.0.0.1:{cluster.registry_port}", **kazoo_arguments(access))
        try:
            start_client(client, timeout_s)
            return client.exists("/brokers/ids") is not None
        except (KazooException, KazooTimeoutError):
            return False
        finally:
            client.stop()
            client.close()

    right = registry_access(cluster)
    assert is_served(right)
    for wrong in (replace(right, scheme=None), replace(right, password="guessed")):
        assert not is_served(wrong)
    for wrong in (replace(right, tls=None), replace(right, tls=TlsClientOptions())):
        assert not is_served(wrong, timeout_s=1)  # kazoo tries until then


def test_registry_gives_access_to_the_brokers_identity_alone(cluster):
    access = registry_access(cluster)
    client = KazooClient(f"127.0.0.1:{cluster.registry_port}", **kazoo_arguments(access))
    start_client(client, 20)
    try:
        lists: dict[str, set[tuple[str, str]]] = {}
        waiting = [f"/{name}" for name in client.get_children("/") if name != "zookeeper"]
        while waiting:
            path = waiting.pop()
            with contextlib.suppress(NoNodeError):
                lists[path] = {tuple(one.id) for one in client.get_acls(path)[0]}
                waiting += [f"{path}/{name}" for name in client.get_children(path)]
    finally:
        client.stop()
        client.close()
    assert "/config/users/admin" in lists
    everybody = [path for path, who in lists.items() if who != {(access.scheme, access.user)}]
    assert everybody == []


def test_a_partition_is_imported(cluster, tmp_path):
    cluster.command("topics", "--create", "--topic", "taken", "--partitions", "1")
    directory = tmp_path / "orders-0"
    shutil.copytree(cluster.log_dir(0) / "orders-0", directory)
    said = cluster.command("import-log", str(directory), "--topic", "taken", "--json").stdout
    assert json.loads(said)["records"] == 2


def test_the_files_are_nobody_elses(cluster):
    assert stat.S_IMODE(cluster.data_dir.stat().st_mode) == 0o700
    for directory in (files(cluster).security, files(cluster).clients):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        for path in directory.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert not (files(cluster).security / "first-user.json").exists()


JSON_COMMANDS = [
    "status --json",
    "users list --json",
    "acls --list --json",
    "topics --describe --json",
    "groups --describe --all-groups",
    "log-dirs --describe --json",
    "metrics --json",
    "quotas list --json",
    "quotas watch --once --json",
    "configs --describe --entity-type users --json",
    "configs --describe --entity-type brokers --entity-name 0 --all --json",
    "configs --describe --entity-type topics --entity-name orders --all --json",
    "load-test --num-records 100 --throughput 1000 --json",
]


def key_lines(directory: Path) -> dict[str, str]:
    """A line out of each private key that lies in a directory."""
    found = {}
    for path in directory.iterdir():
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.startswith("-----BEGIN") and line.endswith("PRIVATE KEY-----"):
                found[f"private key in {path.name}"] = lines[number + 1]
    return found


def test_no_secret_is_in_a_log_an_argument_or_an_answer(cluster):
    loggers = "configs --alter --entity-type broker-loggers --entity-name 0 --add-config"
    cluster.command(*loggers.split(), "root=TRACE")
    made = cluster.command("users", "add", "dave", "--generate").stdout
    (password,) = [line.split()[-1] for line in made.splitlines() if "password is" in line]
    wrong = "a wrong password, which nobody has"
    texts = dict(read_properties_file(files(cluster).tools_properties).texts)
    with pytest.raises(UserError):
        SocketClient.connect(
            Servers(cluster.addresses, client_security({**texts, "sasl.password": wrong})), "test"
        )
    said = {words: cluster.command(*words.split()).stdout for words in JSON_COMMANDS}
    cluster.command("users", "delete", "dave")
    cluster.command(*loggers.split(), "root=INFO")
    said |= {path.name: path.read_text() for path in files(cluster).logs.iterdir()}
    assert " DEBUG " in said["broker-0.log"]
    said["cluster.json"] = files(cluster).state_file.read_text()
    with psutil.Process(cluster.state()["supervisor_pid"]).oneshot():
        family = psutil.Process(cluster.state()["supervisor_pid"])
        for process in [family, *family.children(recursive=True)]:
            said[f"arguments of {process.pid}"] = " ".join(process.cmdline())
            said[f"environment of {process.pid}"] = " ".join(process.environ().values())
    stored = from_registry(cluster, "get", "/config/users/admin")
    secrets = {
        **secrets_of(cluster),
        **key_lines(files(cluster).security),
        **dict(re.findall(r"(stored_key|server_key)=([A-Za-z0-9+/=]{44,})", stored)),
        "dashboard": files(cluster).dashboard_password.read_text().strip(),
        "dave": password,
        "wrong": wrong,
    }
    assert {"stored_key", "server_key", "private key in ca.key"} < secrets.keys()
    for name, secret in secrets.items():
        assert len(secret) > 16
        assert [where for where, text in said.items() if secret in text] == [], name


@pytest.mark.parametrize("name", ["java.properties", "librdkafka.properties", "kcat.conf"])
def test_each_file_for_clients_is_one_for_the_commands_too(cluster, name):
    path = files(cluster).clients / name
    done = subprocess.run(
        [sys.executable, "-m", "cluster", "topics", "--list", "--command-config", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert "orders" in done.stdout.splitlines()


def test_clients_with_a_wrong_password_or_without_tls_are_refused(cluster):
    texts = dict(read_properties_file(files(cluster).tools_properties).texts)
    wrong = client_security({**texts, "sasl.password": "wrong"})
    with pytest.raises(UserError, match="credentials") as refusal:
        SocketClient.connect(Servers(cluster.addresses, wrong), "test")
    assert texts["sasl.password"] not in str(refusal.value)
    del texts["ssl.ca.location"]
    plain = client_security({**texts, "security.protocol": SecurityProtocol.SASL_PLAINTEXT.value})
    for security in (plain, None):
        with pytest.raises(UserError, match="this listener speaks TLS"):
            SocketClient.connect(
                cluster.addresses if security is None else Servers(cluster.addresses, security),
                "test",
            )
    done = cluster.command("topics", "--list", "--bootstrap-server", cluster.bootstrap, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert str(files(cluster).tools_properties) in done.stderr


def test_a_user_may_do_what_acls_say_and_nothing_else(cluster, tmp_path):
    own = tmp_path / "carol.properties"
    cluster.command("users", "add", "carol", "--generate", "--client-config", str(own))
    rule = "--allow-principal User:carol --operation Read --topic orders"
    cluster.command("acls", "--add", *rule.split())
    consume = "consume --topic orders --partition 0 --offset 0 --max-messages 2 --command-config"

    def reads() -> bool:
        done = cluster.command(*consume.split(), str(own), check=False)
        return done.stdout == "one\ntwo\n"

    wait_until(reads, "every broker to know the user and the rule")
    refused = fed(
        cluster, "produce", "--topic", "orders", "--command-config", str(own), given="three\n"
    )
    assert refused.returncode == 1
    assert "uthorization failed" in refused.stderr
    assert "Traceback" not in refused.stderr
    alter = "configs --alter --topic orders --add-config retention.ms=1 --command-config"
    done = cluster.command(*alter.split(), str(own), check=False)
    assert done.returncode == 1
    assert "topic authorization failed" in done.stderr.lower().replace("_", " ")


def is_let_in(cluster: Cluster, security: ClientSecurity) -> bool:
    try:
        SocketClient.connect(Servers(cluster.addresses, security), "test").close()
    except UserError:
        return False
    return True


def test_a_stopped_cluster_starts_secure_again_with_the_same_clients(cluster, tmp_path):
    before = {name: (files(cluster).clients / name).read_bytes() for name in CLIENT_FILES}
    fed(cluster, "users", "add", "dora", given="a password\n")
    ports = (
        f"--port={cluster.addresses[0][1]}",
        f"--registry-port={cluster.registry_port}",
        "--dashboard-port=0",
    )
    cluster.stop()
    again = cluster.command("start", "--detach", *ports)
    assert "holds a secure cluster" in again.stderr
    assert str(files(cluster).clients) in again.stdout
    assert {name: (files(cluster).clients / name).read_bytes() for name in CLIENT_FILES} == before
    assert not files(cluster).registry_properties.exists()  # it is on loopback this time
    assert from_registry(cluster, "ls", "/brokers/ids") == "[0, 1]\n"
    comes_to_list(cluster, "users list", "dora")
    texts = dict(read_properties_file(files(cluster).tools_properties).texts)
    dora = client_security({**texts, "sasl.username": "dora", "sasl.password": "a password"})
    wait_until(lambda: is_let_in(cluster, dora), "the broker to know the user")
    cluster.stop()
    cluster.command(
        "start", "--detach", *ports, "--registry-host=0.0.0.0"
    )  # as other tests want it
    assert files(cluster).registry_properties.exists()


def test_the_password_of_the_commands_is_changed(cluster):
    done = fed(cluster, "users", "alter", "admin", given="another password that is long\n")
    assert "have the new password" in done.stdout
    wait_until(
        lambda: "orders" in cluster.command("topics", "--list", check=False).stdout,
        "the brokers to know the password",
    )


def test_the_user_of_the_commands_is_not_removed_by_mistake(cluster):
    wait_until(
        lambda: "use --force" in cluster.command("users", "delete", "admin", check=False).stderr,
        "a refusal",
    )


def test_the_dashboard_connects_as_the_tools_do(cluster: Cluster) -> None:
    sources = ClusterSources(files(cluster))
    view = sources.cluster()
    assert view["health"]["brokers_up"] == BROKERS
    assert view["health"]["topics"] >= 1  # without the login it would be told of none
    done = sources.alter_quota({"user": "alice"}, {"producer_byte_rate": 4096.0})
    assert "--user=alice" in done.command
    listed = cluster.command("quotas", "list", "--json").stdout
    assert "alice" in listed
    sources.alter_quota({"user": "alice"}, {"producer_byte_rate": None})
    assert "alice" not in cluster.command("quotas", "list", "--json").stdout
