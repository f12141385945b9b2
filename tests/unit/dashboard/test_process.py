"""The dashboard's process: access rules and passwords."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.dashboard import process
from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app
from cluster.datadir.paths import DataDir


@pytest.fixture
def rules_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The rules of a dashboard at this address; it is not served."""
    made: list[AccessRules] = []

    def recorded(sources: Any, rules: AccessRules, more_routes: Any, **options: Any) -> Any:
        made.append(rules)
        return make_app(sources, rules, more_routes, **options)

    monkeypatch.setattr(process, "make_app", recorded)
    monkeypatch.setattr(process, "serve", lambda *_: None)

    held: Any = SimpleNamespace(taken=lambda: None)

    def rules(host: str, *, has_password: bool = False, may_change: bool = False) -> AccessRules:
        process.run_dashboard(
            *(DataDir(tmp_path), host, held, lambda: None),
            has_password=has_password,
            may_change=may_change,
            is_guarded=False,
        )
        return made[-1]

    return rules


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_local_dashboard_needs_no_password_and_allows_changes(
    rules_of: Any, tmp_path: Path, host: str
) -> None:
    rules = rules_of(host)
    assert rules.password is None
    assert rules.may_change
    assert host in rules.hosts
    assert not list(tmp_path.iterdir())


def test_a_secure_clusters_dashboard_on_loopback_has_a_password_and_may_change(
    rules_of: Any, tmp_path: Path
) -> None:
    rules = rules_of("127.0.0.1", has_password=True)
    assert rules.password == (tmp_path / "dashboard-password").read_text().strip()
    assert rules.may_change
    assert "localhost" in rules.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_remote_dashboard_needs_a_password_and_refuses_changes_by_default(
    rules_of: Any, tmp_path: Path, host: str
) -> None:
    rules = rules_of(host, has_password=True)
    assert rules.password == (tmp_path / "dashboard-password").read_text().strip()
    assert rules.hosts is None
    assert not rules.may_change
    again = rules_of(host, has_password=True, may_change=True)
    assert (again.password, again.may_change) == (rules.password, True)
    assert again.token != rules.token
