"""The id of a broker that is started by itself, as Kafka with ZooKeeper finds it."""

import pytest

from cluster.config.setting import SettingError
from cluster.launch.broker_identity import check_id, identity, largest_id
from cluster.launch.broker_ids import ID_MAX
from cluster.model.errors import UserError


def none_needed(_reserved):
    pytest.fail("an id was generated")


def claimed(path, broker, key="broker.id"):
    path.mkdir()
    (path / "meta.properties").write_text(f"version=0\n{key}={broker}\ncluster.id=c\n")
    return path


def test_the_id_of_the_settings_is_used(tmp_path):
    assert identity({"broker.id": "7"}, [tmp_path], none_needed) == 7
    assert identity({"node.id": "8"}, [tmp_path], none_needed) == 8
    assert identity({"broker.id": "7", "node.id": "8"}, [tmp_path], none_needed) == 7


def test_the_id_of_the_log_directories_is_kept(tmp_path):
    old, kraft = claimed(tmp_path / "old", 1001), claimed(tmp_path / "kraft", 5, "node.id")
    new = tmp_path / "new"
    assert identity({}, [new, old], none_needed) == 1001
    assert identity({"broker.id": "-1"}, [old], none_needed) == 1001
    assert identity({"broker.id": "5"}, [kraft, new], none_needed) == 5
    with pytest.raises(UserError, match=r"broker.id=6, but .*kraft/meta.properties says 5"):
        identity({"broker.id": "6"}, [kraft], none_needed)
    with pytest.raises(UserError, match="belong to several brokers"):
        identity({}, [old, kraft], none_needed)


def test_a_new_broker_without_id_gets_one_above_the_reserved_ones(tmp_path):
    assert identity({}, [tmp_path], lambda reserved: reserved + 1) == 1001
    texts = {"broker.id": "-1", "reserved.broker.max.id": "10"}
    assert identity(texts, [tmp_path], lambda reserved: reserved + 2) == 12
    with pytest.raises(UserError, match="is missing, and"):
        identity({"broker.id.generation.enable": "false"}, [tmp_path], none_needed)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"broker.id": "1001"}, "must not be greater than reserved.broker.max.id=1000"),
        ({"broker.id": "11", "reserved.broker.max.id": "10"}, "reserved.broker.max.id=10:"),
        ({"broker.id": "-2"}, "must be from 0 to 2147483647, or -1"),
        ({"broker.id": "2147483648"}, "must be from 0 to 2147483647, or -1"),
        ({"node.id": "one"}, "node.id=one is not a number"),
        ({"reserved.broker.max.id": "-1", "broker.id": "0"}, "reserved.broker.max.id"),
    ],
)
def test_an_id_that_cannot_be_used_is_refused(tmp_path, texts, message):
    with pytest.raises(SettingError, match=message):
        identity(texts, [tmp_path], none_needed)


def test_any_id_may_be_given_where_none_is_generated():
    texts = {"broker.id.generation.enable": "false"}
    assert largest_id(texts) == ID_MAX
    check_id(5_000, texts)
