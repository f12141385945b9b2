"""Length and hash of a text as in Java, which counts UTF-16 units instead of characters. Pure."""


def java_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value


def java_length(text: str) -> int:
    """`String.length`."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2
