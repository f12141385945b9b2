import json

import pytest

from cluster import __version__
from cluster.datadir.state_file import (
    DATA_VERSION,
    KnownBroker,
    check_version,
    read_state,
    remembered_brokers,
    write_state,
)
from cluster.model.errors import UserError


def test_a_state_reads_back_and_says_which_brokers_there_were(tmp_path):
    path = tmp_path / "cluster.json"
    assert read_state(path) is None
    assert remembered_brokers(path) == ()
    write_state(path, {"brokers": [{"id": 0}, {"id": 1}]})
    write_state(path, {"brokers": [{"id": 5, "slot": 2}]})
    assert read_state(path) == {"brokers": [{"id": 5, "slot": 2}]}
    assert remembered_brokers(path) == (KnownBroker(5, 2),)
    assert [file.name for file in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"brokers": []}', '{"format": "theirs"}'])
def test_a_file_of_somebody_else_is_refused(tmp_path, text):
    path = tmp_path / "cluster.json"
    path.write_text(text)
    with pytest.raises(UserError):
        read_state(path)


def test_directory_of_a_newer_version_is_refused_with_both_versions(tmp_path):
    path = tmp_path / "cluster.json"
    check_version(path)
    write_state(path, {"brokers": [{"id": 0}]})
    check_version(path)
    written = json.loads(path.read_text())
    assert (written["data_version"], written["written_by"]) == (DATA_VERSION, __version__)
    newer = {**written, "data_version": DATA_VERSION + 1, "written_by": "99.1"}
    path.write_text(json.dumps(newer))
    with pytest.raises(UserError) as refused:
        check_version(path)
    assert str(refused.value) == (
        f"{tmp_path} was written by Milena 99.1 (data version {DATA_VERSION + 1}); this is Milena"
        f" {__version__}, which reads data versions up to {DATA_VERSION}: use the newer one, or"
        " choose another --data-dir"
    )


def test_directory_without_a_version_is_an_old_one(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"format": "milena-cluster-1", "brokers": [{"id": 3}]}))
    check_version(path)
    assert read_state(path) == {"brokers": [{"id": 3}]}
