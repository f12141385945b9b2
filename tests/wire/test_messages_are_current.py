import pytest

from cluster.protocol.codegen.modules import ERROR_CODES, MESSAGES, ROOT, generate


@pytest.mark.slow
def test_generated_modules_are_current() -> None:
    """Else run `python -m cluster.protocol.codegen`."""
    files = [ROOT / ERROR_CODES, *(ROOT / MESSAGES).glob("*.py")]
    assert {str(file.relative_to(ROOT)): file.read_text() for file in files} == generate()
