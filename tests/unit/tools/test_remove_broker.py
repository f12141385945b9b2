"""What remains of a broker that is removed."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, Refused
from cluster.tools import remove_broker

HAS_REPLICAS = Refused(ErrorCode.invalid_request, "Broker ID 3 has replicas of 1 partitions")
NEVER_REGISTERED = Refused(ErrorCode.broker_id_not_registered, "Broker ID 3 is not registered")


class FakeAdmin:
    def __init__(self, problem: Refused | None) -> None:
        self._problem = problem

    def facts(self) -> None:
        return

    def any_broker(self, _ask: Callable[..., Any]) -> None:
        if self._problem is not None:
            raise self._problem


@pytest.mark.parametrize(
    ("problem", "is_kept"), [(HAS_REPLICAS, True), (NEVER_REGISTERED, False), (None, False)]
)
def test_log_directories_stay_if_replicas_may_have_come_after_the_others_had_left(
    problem, is_kept, tmp_path: Path, monkeypatch, capsys
):
    @contextmanager
    def admin_of(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin(problem)

    directory = tmp_path / "broker-3"
    directory.mkdir()
    (directory / "meta.properties").write_text("broker.id=3\ncluster.id=c\n")
    state = {"cluster_id": "c", "brokers": [{"id": 0}, {"id": 3, "log_dirs": [str(directory)]}]}
    stopped: list[int] = []
    for name, fake in {
        "data_dir": lambda _args: DataDir(tmp_path),
        "running_state": lambda _args: state,
        "stated_servers": lambda _args: None,
        "admin_of": admin_of,
        "_check_known": lambda *_: True,
        "_move_away": lambda *_, **__: False,
        "remove_broker": lambda _files, broker: stopped.append(broker),
    }.items():
        monkeypatch.setattr(remove_broker, name, fake)

    status = remove_broker.run(argparse.Namespace(id=3, force=False))

    assert stopped == [3]
    assert directory.exists() == is_kept
    assert status == is_kept
    said = capsys.readouterr()
    assert ("has replicas of 1 partitions" in said.err) == is_kept
    assert (f"stay, since it may have replicas: {directory}" in said.out) == is_kept
