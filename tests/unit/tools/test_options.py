"""Values of options."""

import argparse

import pytest

from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.kafka_connection import add_connection
from cluster.tools.main import main
from cluster.tools.options import is_true, key_value, known_properties


def test_a_value_may_hold_the_equals_sign_and_may_be_empty():
    assert key_value("key.separator==") == ("key.separator", "=")
    assert key_value("null.literal=") == ("null.literal", "")


@pytest.mark.parametrize("text", ["", "word", "=value"])
def test_a_pair_needs_a_name_and_the_sign(text):
    with pytest.raises(argparse.ArgumentTypeError):
        key_value(text)


def test_numbers_have_their_lowest():
    assert at_least_one("1") == 1
    assert not_negative("0") == 0
    for read, text in ((at_least_one, "0"), (not_negative, "-1"), (at_least_one, "many")):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)


def test_only_true_is_true():
    assert is_true(" TRUE ")
    assert not is_true("yes")


def test_the_last_of_a_property_wins_and_a_misspelt_one_is_named():
    assert known_properties([("a", "1"), ("a", "2")], {"a": ""}) == {"a": "2"}
    with pytest.raises(ValueError, match=r"no property b; there are: a"):
        known_properties([("b", "1")], {"a": ""})


def test_a_properties_file_is_weaker_than_properties_given_singly_wherever_they_stand(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("acks 1\nlinger.ms = 5\nclient.id=a\\\n  b\n")
    parser = argparse.ArgumentParser()
    add_connection(parser, "--producer-property")
    for words in (
        ["--command-config", str(file), "--command-property", "acks=all"],
        ["--producer-property", "acks=all", "--producer.config", str(file)],
    ):
        assert dict(parser.parse_args(words).command_properties) == {
            "acks": "all",
            "linger.ms": "5",
            "client.id": "ab",
        }
    assert parser.parse_args([]).command_properties == []


def test_a_properties_file_that_cannot_be_read_is_wrong_usage(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    add_connection(parser)
    file = tmp_path / "client.properties"
    file.write_text("a=1\nb=\\u1\n")
    for name, reason in ((file, "line 2"), (tmp_path / "absent", "No such file")):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(["--command-config", str(name)])
        assert ended.value.code == 2
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "--create", "--topic", "\udcff"],
        ["registry", "get", "/\udcff"],
        ["load-test", "--topic", "\udcff", "--duration", "1"],
        ["start", "--override", "super.users=User:\udcff"],
        ["start", "--log-dirs", "\udcff"],
        ["kill", "0", "--signal", "\udcff"],
        ["users", "add", "\udcff", "--generate"],
        ["acls", "--add", "--allow-principal", "User:\udcff", "--topic", "t"],
        ["groups", "explain", "--group", "\udcff"],
        ["configs", "--alter", "--topic", "t", "--add-config", "a=\udcff"],
        ["delete-records", "--topic", "\udcff", "--partition", "0", "--before-offset", "1"],
    ],
)
def test_arguments_that_are_no_text_are_refused_in_one_line(words, tmp_path, capsys):
    try:
        status = main([*words[:1], "--data-dir", str(tmp_path / "none"), *words[1:]])
    except SystemExit as end:  # argparse has found it first
        status = int(end.code or 0)
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "\\udcff" in line
    assert not (tmp_path / "none").exists()


def test_a_password_that_is_no_text_is_not_repeated(tmp_path, capsys):
    words = ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-512=[password=hidden\udcff]"]
    assert main(["configs", "--data-dir", str(tmp_path), *words]) == 2
    told = capsys.readouterr().err
    assert told == "error: a password is not text in UTF-8 (see `--help`)\n"
