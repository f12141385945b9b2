import pytest

from cluster.datadir.state_file import KnownBroker, read_state, remembered_brokers, write_state
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
