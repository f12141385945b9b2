"""Cached answers stay within the byte limit, however many are requested."""

from cluster.brokers.membership.kept_answers import KeptAnswers


def test_cached_answers_stay_within_the_byte_limit() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    for number in range(50):
        kept.put(number, "x", 100)
        assert len(kept) <= 10
        assert kept.get(number) == "x"
    kept.clear()
    assert len(kept) == 0
    assert kept.get(49) is None


def test_large_answer_is_not_cached_and_evicts_no_other() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    kept.put("small", "x", 100)
    kept.put("large", "y", 126)
    assert kept.get("large") is None
    assert kept.get("small") == "x"


def test_cached_answer_counts_once() -> None:
    kept = KeptAnswers[str](max_bytes=1_000)
    for _ in range(100):
        kept.put("same", "x", 100)
        kept.put("other", "x", 100)
    assert len(kept) == 2
