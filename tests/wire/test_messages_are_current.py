from tests.wire.message_generator import OUTPUT, generate


def test_generated_messages_are_current() -> None:
    """Else run `python -m tests.wire.message_generator`."""
    assert {file.name: file.read_text() for file in OUTPUT.glob("*.py")} == generate()
