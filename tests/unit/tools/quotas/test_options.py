"""`quotas set|unset|list`: amounts and entities as people write them."""

import argparse

import pytest

from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.quotas.options import add_entity, byte_rate, chosen_entity, percentage


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
