"""docs/rollup.md has the columns of every kind of window."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra `windows`")

from cluster.analytics.windows.kinds import WINDOW_KINDS, WindowKind

TEXT = (Path(__file__).parents[4] / "docs" / "rollup.md").read_text()


@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_the_columns_of_a_kind_are_listed_with_their_types(kind: WindowKind) -> None:
    _, _, section = TEXT.partition(f"### kind={kind.name}\n")
    listed = re.findall(r"^\| `(\w+)` \| (.+?) \|", re.split(r"^##", section, flags=re.M)[0], re.M)
    assert listed == [(field.name, str(field.type)) for field in kind.schema]
