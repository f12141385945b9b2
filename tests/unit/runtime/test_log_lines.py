import logging
import sys

import pytest

from cluster.runtime.log_lines import LINE_MAX_CHARACTERS, LineFormatter

FORGED = "nl\n2026-01-01 00:00:00.000 ERROR   forged: line"


def shown(message, *arguments, **fields):
    record = logging.LogRecord("some.module", logging.INFO, "f", 1, message, arguments, None)
    vars(record).update(fields)
    return LineFormatter().format(record)


def test_a_line_has_time_level_logger_and_message():
    line = shown("created topic %s (%d partitions)", "orders", 3)
    assert line.endswith(" INFO    some.module: created topic orders (3 partitions)")


@pytest.mark.parametrize(
    "line",
    [
        lambda: shown("no topic %s", FORGED),
        lambda: shown(f"no topic {FORGED}"),
        lambda: shown("failed: %s", ValueError(FORGED)),
        lambda: shown("failed: %r", ValueError(FORGED)),
        lambda: shown("of %(name)s", {"name": FORGED}),
        lambda: shown("of %s", {"name": FORGED}),
        lambda: shown("of %s", [FORGED]),
        lambda: shown(FORGED),
    ],
)
def test_a_foreign_text_never_begins_a_line(line):
    assert len(line().splitlines()) == 1
    assert "\\n2026" in line()


def test_numbers_keep_their_formats():
    assert shown("0x%x %5.1f %02d", 255, 1.25, 7).endswith(": 0xff   1.2 07")


def test_each_argument_and_the_whole_line_are_cut():
    assert len(shown("%s from %s", "x" * 100_000, "peer")) < 700
    assert "from peer" in shown("%s from %s", "x" * 100_000, "peer")
    assert len(shown("x" * 100_000)) < LINE_MAX_CHARACTERS + 200


def test_a_trace_is_indented_escaped_and_bounded():
    def deep(left):
        if not left:
            raise ValueError(FORGED)
        return deep(left - 1) if left % 2 else [deep(left - 1)]

    try:
        deep(300)
    except ValueError:
        line = shown("ends", exc_info=sys.exc_info())
    first, *trace = line.splitlines()
    assert first.endswith(": ends")
    assert len(trace) < 150
    assert all(one.startswith("    ") for one in trace)
    assert "Traceback" in trace[0]
    assert trace[-1].endswith("ERROR   forged: line")


def test_the_record_of_other_handlers_is_left_alone():
    record = logging.LogRecord("m", logging.INFO, "f", 1, "a %s", (FORGED,), None)
    LineFormatter().format(record)
    assert (record.msg, record.args) == ("a %s", (FORGED,))
