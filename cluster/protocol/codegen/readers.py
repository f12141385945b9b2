"""Source of functions that read a message, written for untrusted input.

Every length is checked against the rest of the frame before anything is allocated for it, and
unknown tagged fields are skipped. A function reads from `position`, knows that the frame ends at
`end`, and returns the message and the position after it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from cluster.protocol.codegen.definitions import WireField, WireStruct
from cluster.protocol.codegen.functions import (
    DOCSTRINGS,
    FunctionWriter,
    pieces,
    tagged,
    variants,
)
from cluster.protocol.codegen.source_text import condition

_WIDTHS: Final = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


def add_readers(writer: FunctionWriter, message: WireStruct, name: str) -> None:
    """Add the function `name` for the message, after those of its parts."""
    for struct in writer.unwritten(message, "read"):
        is_top = struct is message
        function = name if is_top else writer.function("read", struct)
        version = ", version: int" if is_top or writer.version_argument(struct) else ""
        writer.text.add("", "")
        head = f"def {function}(buffer: bytes, position: int, end: int{version})"
        with writer.text.block(f"{head} -> tuple[{struct.name}, int]:"):
            if not function.startswith("_"):
                writer.text.add(DOCSTRINGS["read"])
            _Reader(writer, struct, writer.reached[struct.name]).write()


@dataclass(frozen=True, slots=True)
class _Place:
    """The target of a value, and its bounds."""

    name: str
    end: str
    nullable: frozenset[int]
    versions: frozenset[int]
    """The versions of this branch; `nullable` are among them."""


class _Reader:
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
        known_tags = tagged(self._struct, self._versions)
        for each in known_tags:
            self._preset(each)
        for piece in pieces(self._struct, self._versions):
            for each in piece:
                if not self._is_always_there(each):
                    self._preset(each)
            if piece[0].is_fixed:
                self._fixed(piece)
            else:
                self._variable(piece[0])
        if self._is_flexible:
            self._tags(known_tags)
        arguments = ", ".join(filter(None, map(self._argument, self._struct.fields)))
        self._text.add(f"return {self._struct.name}({arguments}), position")

    def _is_always_there(self, each: WireField) -> bool:
        return each.versions >= self._versions and each.tag is None

    def _preset(self, each: WireField) -> None:
        """The value in a version without the field, or in a message without the tag."""
        self._text.add(f"{each.name}: {each.python_type} = {each.absent}")

    def _argument(self, each: WireField) -> str:
        if not each.versions & self._versions:
            return "" if each.default is not None else f"{each.name}={each.absent}"
        if each.is_fixed and self._is_always_there(each):
            return f"{each.name}={each.wire_type.read.format(each.name)}"
        return f"{each.name}={each.name}"

    def _fixed(self, run: Sequence[WireField]) -> None:
        """One unpack for a run of fields of fixed width."""
        for head, having in variants(run, self._versions):
            with self._text.block(head):
                unpack = self._writer.packer("unpack", having)
                targets = ", ".join(map(self._target, having))
                target = targets if len(having) > 1 else f"({targets},)"
                width = sum(_WIDTHS[each.wire_type.format] for each in having)
                self._text.add(f"{target} = {unpack}(buffer, position)", f"position += {width}")
                for each in having:
                    self._convert(each)

    def _target(self, each: WireField) -> str:
        """The target of the raw value; a field that is always there is converted in the
        constructor.
        """
        is_later = each.wire_type.is_converted and not self._is_always_there(each)
        return f"{each.name}_raw" if is_later else each.name

    def _convert(self, each: WireField) -> None:
        if (raw := self._target(each)) != each.name:
            self._text.add(f"{each.name} = {each.wire_type.read.format(raw)}")

    def _variable(self, each: WireField) -> None:
        carried = each.versions & self._versions
        question = condition(carried, self._versions)
        with self._text.block(f"if {question}:" if question else ""):
            if not question and each.is_optional:
                self._text.add(f"{each.name}: {each.python_type}")
            self._value(each, _Place(each.name, "end", each.nullable & carried, carried))

    def _value(self, each: WireField, place: _Place) -> None:
        if each.is_array:
            self._length("i")
            with self._nullable(place):
                self._elements(each, place)
            self._no_null(place)
        elif each.struct is not None:
            self._one_struct(each.struct, place)
        else:
            self._text_or_bytes(each, place)

    def _length(self, legacy_format: str) -> None:
        """Assign the declared length to `size`, -1 for null."""
        if not self._is_flexible:
            self._writer.module.packers[f"_unpack_{legacy_format}"] = (
                f'Struct(">{legacy_format}").unpack_from'
            )
            self._text.add(
                f"(size,) = _unpack_{legacy_format}(buffer, position)",
                f"position += {_WIDTHS[legacy_format]}",
            )
            return
        self._text.add("size = buffer[position] - 1", "position += 1")
        with self._text.block("if size > 126:"):
            self._text.add("size, position = read_length(buffer, position - 1)")

    def _nullable(self, place: _Place) -> AbstractContextManager[None]:
        """The block for a value that is not null."""
        if place.nullable:
            return self._text.block("if size >= 0:")
        with self._text.block("if size < 0:"):
            self._text.add(f'raise PeerError("{place.name} is null or has a negative length")')
        return self._text.block("")

    def _no_null(self, place: _Place) -> None:
        """The end of the block of a nullable value."""
        if not place.nullable:
            return
        tests = [] if self._is_flexible else ["size == -1"]
        if question := condition(place.nullable, place.versions):
            tests.append(question)
        with self._text.block(f"elif {' and '.join(tests)}:" if tests else "else:"):
            self._text.add(f"{place.name} = None")
        if tests:
            with self._text.block("else:"):
                self._text.add(f'raise PeerError("{place.name} is null or has a negative length")')

    def _text_or_bytes(self, each: WireField, place: _Place) -> None:
        is_string = each.kafka_type == "string"
        self._length("h" if is_string else "i")
        with self._nullable(place):
            self._text.add("start = position", "position += size")
            with self._text.block(f"if position > {place.end}:"):
                self._text.add("raise truncated()")
            decode = ".decode()" if is_string else ""
            self._text.add(f"{place.name} = buffer[start:position]{decode}")
        self._no_null(place)

    def _one_struct(self, struct: WireStruct, place: _Place) -> None:
        if not place.nullable:
            self._text.add(f"{place.name}, position = {self._call(struct, place)}")
            return
        # KIP-893: one int8 says whether a nullable struct is there; negative is null.
        self._text.add("is_null = buffer[position] > 127", "position += 1")
        with self._text.block("if is_null:"):
            self._text.add(f"{place.name} = None")
        with self._text.block("else:"):
            self._text.add(f"{place.name}, position = {self._call(struct, place)}")

    def _call(self, struct: WireStruct, place: _Place) -> str:
        version = self._writer.version_argument(struct)
        function = self._writer.function("read", struct)
        return f"{function}(buffer, position, {place.end}{version})"

    def _elements(self, each: WireField, place: _Place) -> None:
        kind = each.wire_type if each.struct is None else None
        width = 1 if kind is None or not kind.format else _WIDTHS[kind.format]
        # A count beyond the rest of the frame is invalid: nothing is allocated for it.
        with self._text.block(f"if {_times(width)} > {place.end} - position:"):
            self._text.add("raise truncated()")
        with self._text.block("if size > ELEMENTS_MAX:"):
            self._text.add("raise too_many(size)")
        if kind is not None and kind.format and not kind.is_converted:
            self._text.add(
                f'{place.name} = unpack_from(f">{{size}}{kind.format}", buffer, position)',
                f"position += {_times(width)}",
            )
            return
        item = f"{place.name}_item"
        self._text.add(f"{place.name}_list: list[{each.element}] = []")
        with self._text.block("for _ in range(size):"):
            if each.struct is not None:
                self._text.add(f"{item}, position = {self._call(each.struct, place)}")
            elif kind is not None and kind.format:
                unpack = self._writer.packer("unpack", [each])
                self._text.add(f"({item},) = {unpack}(buffer, position)", f"position += {width}")
                item = kind.read.format(item)
            else:
                self._text_or_bytes(each, _Place(item, place.end, frozenset(), place.versions))
            self._text.add(f"{place.name}_list.append({item})")
        self._text.add(f"{place.name} = tuple({place.name}_list)")

    def _tags(self, known: Sequence[WireField]) -> None:
        with self._text.block("if not buffer[position]:"):
            self._text.add("position += 1")
        with self._text.block("else:"):
            if not known:
                self._text.add("position = skip_tags(buffer, position, end)")
                return
            self._text.add("spans, after = tag_spans(buffer, position, end)")
            for each in known:
                question = condition(each.versions & self._versions, self._versions)
                tests = filter(None, [question, f"{each.tag} in spans"])
                with self._text.block(f"if {' and '.join(tests)}:"):
                    self._text.add(f"position, value_end = spans[{each.tag}]")
                    self._tagged_value(each)
            self._text.add("position = after")

    def _tagged_value(self, each: WireField) -> None:
        if not each.is_fixed:
            self._value(each, _Place(each.name, "value_end", frozenset(), self._versions))
            return
        with self._text.block(f"if value_end - position < {_WIDTHS[each.wire_type.format]}:"):
            self._text.add("raise truncated()")
        unpack = self._writer.packer("unpack", [each])
        self._text.add(f"({self._target(each)},) = {unpack}(buffer, position)")
        self._convert(each)


def _times(width: int) -> str:
    return "size" if width == 1 else f"{width} * size"
