"""What the page says of groups that brokers refuse to tell of."""

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from cluster.dashboard.groups import reader as readers
from cluster.dashboard.groups.reader import GroupReader
from cluster.dashboard.groups.source import Reset
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.views.groups.new_offsets import Target


def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> GroupReader:
    monkeypatch.setattr(readers, "Admin", MagicMock())
    monkeypatch.setattr(readers, "describe_group", MagicMock(side_effect=Refused(code)))
    return GroupReader(DataDir(tmp_path), list, lambda: {"brokers": []}, MagicMock())


def test_a_refusal_names_the_missing_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = reader(tmp_path, monkeypatch, ErrorCode.group_authorization_failed)
    rule = "acls --add --allow-principal User:ANONYMOUS --operation {} --group billing$"
    refusal = "group billing refuses to describe it: Group authorization failed; to allow it: .*"
    with pytest.raises(UserError, match=refusal + rule.format("Describe")):
        groups.group("billing")
    reset = Reset("billing", Target.EARLIEST)
    with pytest.raises(UserError, match=rule.format("Describe")):
        groups.preview(reset)
    with pytest.raises(UserError, match=rule.format("Read")):
        groups.reset(reset)


def test_a_refusal_for_another_reason_names_no_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = reader(tmp_path, monkeypatch, ErrorCode.coordinator_not_available)
    with pytest.raises(UserError, match=r"refuses to describe it: Coordinator not available$"):
        groups.group("billing")
