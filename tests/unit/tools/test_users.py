"""`users`: passwords by file, stdin or made; the user that the commands themselves are."""

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cluster.client.user_requests import Iterations, NewPassword, alter_user
from cluster.config.properties_file import read_properties_file
from cluster.datadir.client_files import write_client_files
from cluster.datadir.paths import DataDir
from cluster.datadir.security_files import prepare_security
from cluster.model.errors import UserError
from cluster.model.security import SaslMechanism
from cluster.tools import arguments, users
from cluster.tools.main import main

BOTH = {SaslMechanism.SCRAM_SHA_256: 4096, SaslMechanism.SCRAM_SHA_512: 4096}
BOOTSTRAP = "127.0.0.1:9092"


class Directory:
    """Stands for the cluster: its users, and the password that each was given last."""

    def __init__(self) -> None:
        self.users: dict[str, Iterations] = {"admin": {SaslMechanism.SCRAM_SHA_512: 4096}}
        self.passwords: dict[str, str] = {}

    def describe(self, _client: Any, names: list[str] | None = None) -> dict[str, Iterations]:
        return {
            name: dict(ways) for name, ways in self.users.items() if names is None or name in names
        }

    def alter(
        self,
        _client: Any,
        name: str,
        passwords: list[NewPassword] | None = None,
        removed: list[SaslMechanism] | None = None,
    ) -> None:
        ways = self.users.setdefault(name, {})
        for each in passwords or []:
            ways[each.mechanism] = each.iterations
            self.passwords[name] = each.password
        for mechanism in removed or []:
            del ways[mechanism]
        if not ways:
            del self.users[name]


@pytest.fixture
def cluster(monkeypatch) -> Directory:
    known = Directory()
    monkeypatch.setattr(users, "describe_users", known.describe)
    monkeypatch.setattr(users, "alter_user", known.alter)

    @contextmanager
    def connect(_servers: Any, _client_id: str) -> Iterator[None]:
        yield None

    monkeypatch.setattr("cluster.tools.users.SocketClient.connect", connect)
    monkeypatch.setattr(arguments, "describe", lambda _files: {"bootstrap": BOOTSTRAP})
    return known


@pytest.fixture
def data_dir(tmp_path) -> DataDir:
    files = DataDir(tmp_path / "var")
    security = prepare_security(files.security, [0], ["localhost"], datetime.now(UTC))
    write_client_files(files.clients, BOOTSTRAP, security)
    return files


def run(data_dir: DataDir, *words: str) -> int:
    return main(["--data-dir", str(data_dir.path), "users", *words])


def password_file(tmp_path: Path, text: str = "secret") -> str:
    path = tmp_path / "password"
    path.write_text(f"{text}\nmore\n")
    return str(path)


def test_a_user_can_log_in_by_both_mechanisms(cluster, data_dir, tmp_path, capsys):
    assert run(data_dir, "add", "alice", "--password-file", password_file(tmp_path)) == 0
    assert cluster.users["alice"] == BOTH
    assert cluster.passwords["alice"] == "secret"
    assert capsys.readouterr().out == "Completed adding user alice.\n"


@pytest.mark.parametrize("option", ["--password-file", "--command-config"])
def test_a_file_whose_password_others_can_read_is_warned_of(
    cluster, data_dir, tmp_path, capsys, option
):
    file = tmp_path / "bob"
    file.write_text("sasl.username=bob\nsasl.password=hers\n")
    words = ["users", "add", "alice", option, str(file), "--data-dir", str(data_dir.path)]
    generate = ["--generate"] * (option == "--command-config")
    for mode, said in ((0o600, ""), (0o640, "its group"), (0o644, "everybody")):
        file.chmod(mode)
        assert main([*words, *generate]) == 0
        shown = f"warning: {said} can read the password in {file}: run `chmod 600 {file}`\n"
        assert capsys.readouterr().err == (shown if said else "")
        cluster.users.pop("alice")


def test_a_password_is_read_from_stdin(cluster, data_dir, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "from stdin\n", raising=False)
    assert run(data_dir, "add", "alice", "--mechanism", "SCRAM-SHA-256") == 0
    assert cluster.users["alice"] == {SaslMechanism.SCRAM_SHA_256: 4096}
    assert cluster.passwords["alice"] == "from stdin"


def test_a_password_that_is_no_text_is_refused_and_not_repeated():
    client: Any = None  # of which nothing is asked
    new = NewPassword(SaslMechanism.SCRAM_SHA_256, "hid\udcff", 4096)
    with pytest.raises(UserError, match=r"^a password has to be text in UTF-8$"):
        alter_user(client, "alice", [new])


def test_the_end_of_input_at_the_prompt_is_no_password(cluster, data_dir, monkeypatch, capsys):
    prompts = []

    def asked(prompt: str) -> str:
        prompts.append(prompt)
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", asked)
    assert main(["users", "add", "alice", "--data-dir", str(data_dir.path)]) == 1
    assert capsys.readouterr().err.endswith("error: a password cannot be empty\n")
    assert prompts == ["Password of alice: "], "it is not asked for once more"
    assert "alice" not in cluster.users


def test_a_password_is_made_and_printed_once(cluster, data_dir, capsys):
    assert run(data_dir, "add", "alice", "--generate", "--iterations", "8192") == 0
    assert f"Its password is {cluster.passwords['alice']}\n" in capsys.readouterr().out
    assert set(cluster.users["alice"].values()) == {8192}


def test_a_file_for_a_users_clients_is_for_nobody_else(cluster, data_dir, tmp_path, capsys):
    path = tmp_path / "alice.properties"
    assert run(data_dir, "add", "alice", "--generate", "--client-config", str(path)) == 0
    assert cluster.passwords["alice"] not in capsys.readouterr().out
    texts = read_properties_file(path).texts
    assert texts["sasl.username"] == "alice"
    assert texts["sasl.password"] == cluster.passwords["alice"]
    assert texts["security.protocol"] == "SASL_SSL"
    assert Path(texts["ssl.ca.location"]).read_bytes() == (data_dir.clients / "ca.pem").read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["no/such/file", "."])
def test_no_password_is_set_that_could_not_be_written(cluster, data_dir, tmp_path, capsys, name):
    words = ["users", "add", "bob", "--generate", "--data-dir", str(data_dir.path)]
    assert main([*words, "--client-config", str(tmp_path / name)]) == 1
    assert "bob" not in cluster.users
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot write ")


def test_the_commands_own_user_keeps_working_after_its_password_is_changed(
    cluster, data_dir, tmp_path, capsys
):
    file = password_file(tmp_path, "new one")
    assert run(data_dir, "alter", "admin", "--password-file", file) == 0
    assert cluster.users["admin"] == {SaslMechanism.SCRAM_SHA_512: 4096}
    assert "have the new password" in capsys.readouterr().out
    texts = read_properties_file(data_dir.tools_properties).texts
    assert (texts["sasl.password"], texts["bootstrap.servers"]) == ("new one", BOOTSTRAP)
    java = read_properties_file(data_dir.clients / "java.properties").texts
    assert 'password="new one"' in java["sasl.jaas.config"]
    again = prepare_security(data_dir.security, [0], ["localhost"], datetime.now(UTC))
    assert again.admin_password == "new one"


def test_the_commands_own_user_is_removed_by_force_only(cluster, data_dir, capsys):
    assert run(data_dir, "delete", "admin") == 1
    assert "use --force" in capsys.readouterr().err
    assert "admin" in cluster.users
    assert run(data_dir, "delete", "admin", "--force") == 0
    assert cluster.users == {}


def test_one_way_to_log_in_is_removed(cluster, data_dir):
    cluster.users["alice"] = dict(BOTH)
    assert run(data_dir, "delete", "alice", "--mechanism", "SCRAM-SHA-256") == 0
    assert cluster.users["alice"] == {SaslMechanism.SCRAM_SHA_512: 4096}


def test_users_are_listed(cluster, data_dir, capsys):
    cluster.users["alice"] = dict(BOTH)
    assert run(data_dir, "list") == 0
    assert "alice  SCRAM-SHA-256 (4096 iterations), SCRAM-SHA-512" in capsys.readouterr().out
    assert run(data_dir, "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"user": "admin", "mechanisms": {"SCRAM-SHA-512": 4096}},
        {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}},
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["add", "admin", "--generate"], "there is a user admin already"),
        (["alter", "bob", "--generate"], "there is no user bob"),
        (["delete", "bob"], "there is no user bob"),
        (["add", "", "--generate"], "a name cannot be empty"),
        (["add", "ü€", "--generate"], "nobody can log in by SCRAM as ü€"),
        (["add", "bob", "--password-file", "/no/such"], "cannot read /no/such"),
        (["add", "bob", "--password-file", "/dev/null"], "a password cannot be empty"),
    ],
)
def test_invalid_user_changes_are_refused_in_one_line(cluster, data_dir, capsys, words, reason):
    assert run(data_dir, *words) != 0
    assert reason in capsys.readouterr().err
    assert set(cluster.users) == {"admin"}
