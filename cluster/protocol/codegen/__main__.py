"""Writes every generated module."""

from cluster.protocol.codegen.modules import MESSAGES, ROOT, generate


def main() -> None:
    """Write all modules, and remove those of APIs that are no longer generated."""
    modules = generate()
    for path, text in modules.items():
        (ROOT / path).write_text(text)
    for file in (ROOT / MESSAGES).glob("*.py"):
        if str(file.relative_to(ROOT)) not in modules:
            file.unlink()


if __name__ == "__main__":
    main()
