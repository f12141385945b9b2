"""Which connection is closed when too many answers are unsent."""

from cluster.runtime.unsent_ledger import UnsentLedger


def test_the_longest_silent_connection_is_closed_first() -> None:
    ledger = UnsentLedger[str](100)
    ledger.note("a", 50, has_taken=True)
    ledger.note("b", 40, has_taken=True)
    ledger.note("a", 45, has_taken=True)  # it reads, if slowly
    assert not ledger.is_full
    ledger.note("c", 30, has_taken=True)
    ledger.note("b", 60, has_taken=False)  # it has more unsent bytes and reads nothing
    assert ledger.is_full
    assert ledger.longest_silent() == "b"
    ledger.forget("b")
    assert not ledger.is_full
    assert ledger.held_bytes == 75


def test_a_single_connection_is_never_cut_off() -> None:
    ledger = UnsentLedger[str](100)
    ledger.note("a", 5_000, has_taken=True)
    assert not ledger.is_full
    ledger.note("a", 0, has_taken=True)
    ledger.forget("a")
    assert ledger.held_bytes == 0


def test_ledger_cuts_off_nobody_without_a_limit() -> None:
    ledger = UnsentLedger[str](None)
    for number in range(10):
        ledger.note(str(number), 1 << 40, has_taken=True)
    assert not ledger.is_full


def test_each_call_returns_the_peak_since_the_call_before() -> None:
    ledger = UnsentLedger[str](None)
    ledger.note("a", 70, has_taken=True)
    ledger.note("a", 20, has_taken=True)
    assert (ledger.take_peak(), ledger.take_peak()) == (70, 20)
