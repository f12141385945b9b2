"""The file with which brokers, supervisor and tools log in to a registry that requires it."""

from pathlib import Path

import pytest

from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.datadir.paths import DataDir
from cluster.datadir.registry_auth import make_registry_auth, registry_access
from cluster.model.errors import UserError


def test_registry_password_is_made_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    files = DataDir(tmp_path)
    make_registry_auth(files)
    made = registry_access(files.registry_auth_file)
    assert made.scheme == "sasl"
    assert len(made.password) == 48
    assert files.registry_auth_file.stat().st_mode & 0o777 == 0o600
    assert files.security.stat().st_mode & 0o777 == 0o700
    make_registry_auth(files)
    assert registry_access(files.registry_auth_file) == made
    assert [path.name for path in files.security.iterdir()] == ["registry.auth"]
    assert made.password not in repr(made)


def test_without_a_file_nobody_logs_in(tmp_path: Path) -> None:
    assert registry_access(tmp_path / "none") == NOBODY
    with pytest.raises(UserError, match="there is no file"):
        registry_access(tmp_path / "none", is_needed=True)


@pytest.mark.parametrize(("text", "mode"), [("sasl:a:b", 0o640), ("sasl:hidden", 0o600)])
def test_a_file_that_others_read_or_that_is_damaged_is_refused(
    tmp_path: Path, text: str, mode: int
) -> None:
    path = tmp_path / "auth"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UserError) as refused:
        registry_access(path)
    assert "hidden" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_identity_is_the_same_after_being_written() -> None:
    for text in ("digest:a:b:c", "sasl:milena:x", None):
        assert RegistryAccess.parse(text).text == text
