"""`quotas set|unset|list`: amounts and entities as people write them."""

import argparse

import pytest

from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.main import main
from cluster.tools.quotas.options import add_entity, chosen_entity
from cluster.views.amounts import byte_rate, percentage


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1048576", 1_048_576),
        ("1M", 1_048_576),
        ("1MiB", 1_048_576),
        ("1MB", 1_000_000),
        ("1.5 mib/s", 1_572_864),
        ("500kB", 500_000),
        ("2g", 2 << 30),
        ("10B", 10),
    ],
)
def test_byte_rates(text, amount):
    assert byte_rate(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "0", "many", "1MX", "nan", "inf", "1e3"])
def test_byte_rates_that_are_none(text):
    with pytest.raises(argparse.ArgumentTypeError):
        byte_rate(text)


def test_percentages():
    assert percentage("50") == percentage("50%") == 50.0
    for text in ("0", "-5", "nan", "inf", "half"):
        with pytest.raises(argparse.ArgumentTypeError):
            percentage(text)


def entity(*words: str) -> QuotaEntity:
    parser = argparse.ArgumentParser()
    add_entity(parser)
    return chosen_entity(parser.parse_args(words))


def test_entities():
    assert entity("--client-id", "c") == QuotaEntity(None, "c")
    assert entity("--user-default", "--client-id", "c") == QuotaEntity(DEFAULT, "c")
    assert entity("--user", "u", "--client-default") == QuotaEntity("u", DEFAULT)
    for words in ([], ["--user", ""]):
        with pytest.raises(UsageError):
            entity(*words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--client-id", "c", "--connection-creation-rate", "3"], "name one by --ip"),
        (["--ip", "10.0.0.1", "--producer-byte-rate", "1MB"], "by --client-id or --user, not by"),
        (["--client-id", "c"], "say how much: --producer-byte-rate"),
        (["--producer-byte-rate", "1MB"], "name a client: --client-id"),
    ],
)
def test_a_limit_that_cannot_be_set_is_one_line_before_anything_is_asked(capsys, words, told):
    assert main(["quotas", "set", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
