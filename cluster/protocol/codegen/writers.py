"""Source of functions that append a message to a frame.

None becomes the empty value in versions without null.
"""

from collections.abc import Sequence

from cluster.protocol.codegen.definitions import WireField, WireStruct
from cluster.protocol.codegen.functions import (
    DOCSTRINGS,
    FunctionWriter,
    pieces,
    tagged,
    variants,
)
from cluster.protocol.codegen.source_text import condition


def add_writers(writer: FunctionWriter, message: WireStruct, name: str) -> None:
    """Add the function `name` for the message, after those of its parts."""
    for struct in writer.unwritten(message, "write"):
        is_top = struct is message
        function = name if is_top else writer.function("write", struct)
        version = ", version: int" if is_top or writer.version_argument(struct) else ""
        writer.text.add("", "")
        head = f"def {function}(out: bytearray, message: {struct.name}{version}) -> None:"
        with writer.text.block(head):
            if not function.startswith("_"):
                writer.text.add(DOCSTRINGS["write"])
            _Writer(writer, struct, writer.reached[struct.name]).write()


class _Writer:
    """Writes the body of one function."""

    def __init__(
        self, writer: FunctionWriter, struct: WireStruct, versions: frozenset[int]
    ) -> None:
        self._writer = writer
        self._text = writer.text
        self._struct = struct
        self._versions = versions
        self._is_flexible = writer.encoding.is_flexible

    def write(self) -> None:
        is_empty = not self._is_flexible
        for piece in pieces(self._struct, self._versions):
            is_empty = False
            if piece[0].is_fixed:
                self._fixed(piece)
            else:
                self._variable(piece[0])
        if self._is_flexible:
            self._tags(tagged(self._struct, self._versions))
        if is_empty:
            self._text.add('"""Nothing is in it."""')

    def _fixed(self, run: Sequence[WireField]) -> None:
        """One pack for a run of fields of fixed width."""
        for head, having in variants(run, self._versions):
            with self._text.block(head):
                self._text.add(f"out += {self._packed(having)}")

    def _packed(self, run: Sequence[WireField]) -> str:
        values = (each.wire_type.write.format(f"message.{each.name}") for each in run)
        return f"{self._writer.packer('pack', run)}({', '.join(values)})"

    def _variable(self, each: WireField) -> None:
        carried = each.versions & self._versions
        question = condition(carried, self._versions)
        with self._text.block(f"if {question}:" if question else ""):
            self._value(each, "out", carried)

    def _value(self, each: WireField, out: str, versions: frozenset[int]) -> None:
        value = f"message.{each.name}"
        if not each.is_optional:
            self._present(each, value, out, versions)
            return
        with self._text.block(f"if {value} is None:"):
            self._null(each, out, versions)
        with self._text.block("else:"):
            self._present(each, value, out, versions)

    def _null(self, each: WireField, out: str, versions: frozenset[int]) -> None:
        """The encoding of None: null, or empty in versions without null."""
        kind = "STRING" if each.kafka_type == "string" and not each.is_array else "ARRAY"
        if self._is_flexible:
            kind = "COMPACT"
        null, empty = f"NULL_{kind}", f"EMPTY_{kind}"
        if each.struct is not None and not each.is_array:
            null = "NULL_STRUCT"
        nullable = each.nullable & versions
        if not nullable:
            self._text.add(f"{out} += {empty}")
        elif question := condition(nullable, versions):
            self._text.add(f"{out} += {null} if {question} else {empty}")
        else:
            self._text.add(f"{out} += {null}")

    def _length(self, expression: str, legacy_format: str, out: str) -> None:
        if self._is_flexible:
            self._text.add(f"{out} += varint(len({expression}) + 1)")
        else:
            pack = f"_pack_{legacy_format}"
            self._writer.module.packers[pack] = f'Struct(">{legacy_format}").pack'
            self._text.add(f"{out} += {pack}(len({expression}))")

    def _present(self, each: WireField, value: str, out: str, versions: frozenset[int]) -> None:
        if each.is_array:
            self._elements(each, value, out)
        elif each.struct is not None:
            if each.nullable & versions:
                self._text.add(f"{out} += STRUCT_FOLLOWS")  # KIP-893
            self._text.add(self._call(each.struct, value, out))
        else:
            self._text_or_bytes(each, value, out)

    def _text_or_bytes(self, each: WireField, value: str, out: str) -> None:
        if each.kafka_type == "string":
            self._text.add(f"encoded = {value}.encode()")
            self._length("encoded", "h", out)
            self._text.add(f"{out} += encoded")
        else:
            self._length(value, "i", out)
            self._text.add(f"{out} += {value}")

    def _call(self, struct: WireStruct, value: str, out: str) -> str:
        version = self._writer.version_argument(struct)
        return f"{self._writer.function('write', struct)}({out}, {value}{version})"

    def _elements(self, each: WireField, value: str, out: str) -> None:
        self._length(value, "i", out)
        kind = each.wire_type if each.struct is None else None
        if kind is not None and kind.format and kind.write == "{}":
            self._text.add(f'{out} += pack(f">{{len({value})}}{kind.format}", *{value})')
            return
        if each.may_be_encoded:
            with self._text.block(f"if isinstance({value}, EncodedItems):"):
                self._text.add(f"{out} += {value}.content")
        item = f"{each.name}_item"
        with (
            self._text.block("else:" if each.may_be_encoded else ""),
            self._text.block(f"for {item} in {value}:"),
        ):
            if each.struct is not None:
                self._text.add(self._call(each.struct, item, out))
            elif kind is not None and kind.format:
                pack = self._writer.packer("pack", [each])
                self._text.add(f"{out} += {pack}({kind.write.format(item)})")
            else:
                self._text_or_bytes(each, item, out)

    def _tags(self, known: Sequence[WireField]) -> None:
        if not known:
            self._text.add("out += NO_TAGS")
            return
        self._text.add("count = 0", "tags = bytearray()")
        for each in known:
            question = condition(each.versions & self._versions, self._versions)
            tests = filter(None, [question, _differs(each)])
            with self._text.block(f"if {' and '.join(tests)}:"):
                self._text.add("count += 1")
                if each.is_fixed:
                    self._text.add(f"value = {self._packed([each])}")
                else:
                    self._text.add("content = bytearray()")
                    self._value(each, "content", self._versions)
                    self._text.add("value = bytes(content)")
                self._text.add(f"tags += varint({each.tag}) + varint(len(value)) + value")
        self._text.add("out += varint(count)", "out += tags")


def _differs(each: WireField) -> str:
    """Whether a tagged field differs from its default."""
    value = f"message.{each.name}"
    default = each.absent
    if default in ("True", "False"):
        return value if default == "False" else f"not {value}"
    return f"{value} is not None" if default == "None" else f"{value} != {default}"
