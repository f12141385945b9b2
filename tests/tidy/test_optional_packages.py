"""The quick tests run where only the packages of a start are installed."""

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
OF_THE_ROLLUP: Final = re.compile(r"^(?:import|from) (?:pyarrow|pyspark)\b", re.MULTILINE)


@pytest.mark.parametrize("folder", ["unit", "wire", "tidy"])
def test_a_module_that_needs_the_rollup_is_skipped_without_it(folder: str) -> None:
    for path in sorted((TESTS / folder).rglob("test_*.py")):
        before, *needing = OF_THE_ROLLUP.split(path.read_text(), maxsplit=1)
        skips = "importorskip(" in before or "need_spark()" in before
        assert skips or not needing, str(path.relative_to(TESTS))
