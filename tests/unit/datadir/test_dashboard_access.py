"""The dashboard's password: made once, for its owner only; and where it is asked for."""

import stat
from pathlib import Path

import pytest

from cluster.datadir.dashboard_access import dashboard_password, needs_password
from cluster.model.errors import UserError


@pytest.mark.parametrize(
    ("host", "is_guarded", "needed"),
    [
        ("127.0.0.1", False, False),
        ("localhost", False, False),
        ("::1", False, False),
        ("127.0.0.1", True, True),
        ("localhost", True, True),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("192.0.2.1", True, True),
    ],
)
def test_only_a_cluster_without_security_needs_none_on_loopback(host, is_guarded, needed):
    assert needs_password(host, is_guarded=is_guarded) is needed


def test_password_is_made_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "dashboard-password"
    password = dashboard_password(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() == password
    assert len(password) >= 43  # 256 bits
    assert dashboard_password(path) == password


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_file_is_no_password(tmp_path: Path, content: str) -> None:
    path = tmp_path / "dashboard-password"
    path.write_text(content)
    (tmp_path / "dashboard-password.new").write_text("of a start that was killed")
    password = dashboard_password(path)
    assert len(password) >= 43
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text().strip() == password


def test_a_file_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "dashboard-password"
    path.write_text("of my own")
    path.chmod(0o644)
    assert dashboard_password(path) == "of my own"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_unreadable_password_file_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "dashboard-password").mkdir()
    with pytest.raises(
        UserError, match=r"^cannot use .*dashboard-password: Is a directory: [^\n]*$"
    ):
        dashboard_password(tmp_path / "dashboard-password")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"^cannot use .*binary: it is not text: [^\n]*$"):
        dashboard_password(binary)
