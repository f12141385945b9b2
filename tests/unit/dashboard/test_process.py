"""The dashboard's process: its password, made once, for its owner only."""

import stat
from pathlib import Path
from typing import Any

import pytest

from cluster.dashboard import process
from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app
from cluster.supervisor.plan import DataDir


@pytest.fixture
def rules_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The rules of a dashboard on such an address; it is not served."""
    made: list[AccessRules] = []

    def recorded(sources: Any, rules: AccessRules) -> Any:
        made.append(rules)
        return make_app(sources, rules)

    monkeypatch.setattr(process, "make_app", recorded)
    monkeypatch.setattr(process, "listen", lambda _host, _port: None)
    monkeypatch.setattr(process, "serve", lambda *_: None)

    def rules(host: str, *, may_change: bool = False) -> AccessRules:
        process.run_dashboard(DataDir(tmp_path), host, 0, may_change, lambda: None)
        return made[-1]

    return rules


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_needs_no_password_and_may_change(
    rules_of: Any, tmp_path: Path, host: str
) -> None:
    rules = rules_of(host)
    assert rules.password is None
    assert rules.may_change
    assert host in rules.hosts
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_a_password_that_only_its_owner_can_read(
    rules_of: Any, tmp_path: Path, host: str
) -> None:
    rules = rules_of(host)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert rules.password == path.read_text().strip()
    assert len(rules.password) >= 43  # 256 bits
    assert not rules.may_change
    again = rules_of(host, may_change=True)
    assert (again.password, again.may_change) == (rules.password, True)
    assert again.token != rules.token


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_file_is_no_password(rules_of: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "dashboard-password").write_text(content)
    (tmp_path / "dashboard-password.new").write_text("of a start that was killed")
    rules = rules_of("0.0.0.0")
    assert len(rules.password) >= 43
    (path,) = tmp_path.iterdir()
    assert path.read_text().strip() == rules.password
