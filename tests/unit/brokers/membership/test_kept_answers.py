"""Kept answers take no more than they may, however many are asked for."""

from cluster.brokers.membership.kept_answers import KeptAnswers


def test_answers_are_kept_within_their_bytes() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    for number in range(50):
        kept.put(number, "x", 100)
        assert len(kept) <= 10
        assert kept.get(number) == "x"
    kept.clear()
    assert len(kept) == 0
    assert kept.get(49) is None


def test_a_large_answer_is_not_kept_and_drives_out_no_other() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    kept.put("small", "x", 100)
    kept.put("large", "y", 126)
    assert kept.get("large") is None
    assert kept.get("small") == "x"


def test_an_answer_that_is_kept_counts_once() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    for _ in range(100):
        kept.put("same", "x", 100)
        kept.put("other", "x", 100)
    assert len(kept) == 2
