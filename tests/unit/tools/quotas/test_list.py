"""The table of `quotas list`."""

import re

import pytest

from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.tools.quotas.list import applies_to, limits_table


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (QuotaEntity("alice", None), "user alice"),
        (QuotaEntity(None, "loader"), "client id loader"),
        (
            QuotaEntity(DEFAULT, DEFAULT),
            "all other users (default), all other client ids (default)",
        ),
        (QuotaEntity("a", DEFAULT), "user a, all other client ids (default)"),
        (QuotaEntity(None, None, DEFAULT), "all other addresses (default)"),
        (QuotaEntity(None, None, "10.0.0.7"), "address 10.0.0.7"),
        (QuotaEntity(None, "a\x1b"), "client id a\\x1b"),
    ],
)
def test_an_entity_is_told_in_words(entity: QuotaEntity, words: str) -> None:
    assert applies_to(entity) == words


def test_only_quotas_that_are_set_have_a_column() -> None:
    table = limits_table(
        [
            (QuotaEntity(None, "loader"), {"producer_byte_rate": 1_048_576.0}),
            (QuotaEntity("alice", None), {"request_percentage": 12.5}),
        ]
    )
    assert [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()] == [
        ["APPLIES TO", "RULE", "PRODUCE", "REQUEST"],
        ["client id loader", "client", "1.00 MiB/s"],
        ["user alice", "user", "12.5 %"],
    ]
