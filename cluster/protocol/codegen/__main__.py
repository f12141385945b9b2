"""Writes every generated module anew."""

from cluster.protocol.codegen.modules import MESSAGES, ROOT, generate


def main() -> None:
    """Modules of APIs that are no longer generated are removed."""
    modules = generate()
    for path, text in modules.items():
        (ROOT / path).write_text(text)
    for file in (ROOT / MESSAGES).glob("*.py"):
        if str(file.relative_to(ROOT)) not in modules:
            file.unlink()


if __name__ == "__main__":
    main()
