"""Decoders, compiled: one straight-line function per message and version.

The function takes a frame and the position of the message in it, and returns the
message. Its source is written here: fixed-size neighbours are read by one `struct`
call, together with the length or count that follows them; loops are nested where arrays
are; nothing is looked up or dispatched. `records` are views into the frame.

Every length and count is compared with what remains before anything of that size is
made. Reading past the end raises in `struct` or in indexing, and is told as a
`ProtocolError` like the rest. The price is a millisecond or two at the first use.

Text that is not UTF-8 is read with replacement characters, as Kafka's server does it: a
name will not be found, but the connection goes on.
"""

import struct

from broker.protocol import wire
from broker.protocol.errors import ProtocolError
from broker.protocol.schema import FIXED, NO_UUID, Field, Struct, default_of
from broker.protocol.source import Source, size_of

_VARIABLE = {
    "string": 'str(buffer[at:stop], "utf-8", "replace")',
    "bytes": "bytes(buffer[at:stop])",
    "records": "buffer[at:stop]",
}


def decoder_source(
    message: Struct, version: int, flexible: bool, *, in_turns: bool = False
) -> tuple[str, dict[str, object]]:
    """The source of `decode(buffer, at)`, and the names that it refers to.

    ``in_turns``: a generator, that yields now and then and returns the message. The
    classes of the structures are referred to by name and are the caller's to add.
    """
    writer = _Decoder(version, flexible, in_turns)
    source = writer.source
    with source.block("def decode(buffer, at)"):
        if in_turns:
            source.begin_turns()
        source.line("end = len(buffer)")
        source.line(f"budget = {wire.ELEMENTS_MAX}")
        with source.block("try"):
            value = writer.struct(message)
            writer.flush()
        with source.block("except (StructError, IndexError)"):
            source.line('raise ProtocolError("the frame ends too early") from None')
        # Bytes may follow, as with Kafka: librdkafka's Metadata v13 has three too many.
        with source.block("if at > end"):
            source.line(f"refuse_end({message.name!r}, at, end)")
        source.line(f"return {value}")
    source.names |= {
        "NO_UUID": NO_UUID,
        "StructError": struct.error,
        "ProtocolError": ProtocolError,
        "unpack_from": struct.unpack_from,
        "read_uvarint": wire.read_uvarint,
        "read_tag": wire.read_tag,
        "skip_tags": wire.skip_tags,
        "check_tags": wire.check_tags,
        "refuse_length": wire.refuse_length,
        "refuse_count": wire.refuse_count,
        "refuse_end": wire.refuse_end,
    }
    return writer.tag_readers + source.text, source.names


class _Decoder:
    """Writes the reading of one message at one version."""

    def __init__(self, version: int, flexible: bool, in_turns: bool = False) -> None:
        self.version = version
        self.flexible = flexible
        self.in_turns = in_turns
        self.source = Source("unpack_from")
        self.tag_readers = ""

    def flush(self) -> None:
        """Read the run of fixed-size values that has gathered."""
        source = self.source
        if not source.run:
            return
        formats = [f for f, _ in source.run]
        targets = [t for _, t in source.run]
        if formats == ["B"]:
            source.line(f"{targets[0]} = buffer[at]")
        else:
            unpack = source.packer(formats)
            source.line(f"{', '.join(targets)}, = {unpack}(buffer, at)")
        source.line(f"at += {size_of(formats)}")
        source.run.clear()

    def struct(self, struct: Struct) -> str:
        """Write the reading of a structure; the expression that makes it."""
        values = {f.name: self.field(f) for f in struct.at(self.version)}
        if self.flexible:
            values |= self.tags(struct)
        parts = [values.get(f.name) or default_of(f) for f in struct.fields]
        return f"{struct.name}({', '.join(parts)})"

    def field(self, field: Field) -> str:
        """Write the reading of a field; the name of its variable."""
        target = self.source.variable(field.name)
        nullable = self.version in field.null_versions
        if field.array:
            self.array(field, target, nullable)
        elif isinstance(field.type, Struct):
            self.single(field.type, target, nullable)
        else:
            self.primitive(field, target, nullable)
        return target

    def primitive(self, field: Field, target: str, nullable: bool) -> None:
        assert isinstance(field.type, str)
        if field.type in FIXED:
            self.source.run.append((FIXED[field.type], target))
            return
        source = self.source
        size = self.length("h" if field.type == "string" else "i")
        bias = 1 if self.flexible else 0
        test = f"if {size} == {bias - 1}"
        if nullable:
            with source.block(test):
                source.line(f"{target} = None")
            with source.block("else"):
                self.take(field, target, size, bias)
        else:
            self.take(field, target, size, bias)

    def take(self, field: Field, target: str, size: str, bias: int) -> None:
        """Write the reading of so many bytes."""
        source = self.source
        source.line(f"stop = at + {size}" + (f" - {bias}" if bias else ""))
        assert isinstance(field.type, str)
        is_long = ""
        if self.flexible and field.type == "string":
            is_long = f" or {size} > {wire.STRING_BYTES_MAX + bias}"
        with source.block(f"if stop < at or stop > end{is_long}"):
            source.line(f"refuse_length({field.name!r}, {size} - {bias}, at, end)")
        source.line(f"{target} = {_VARIABLE[field.type]}")
        source.line("at = stop")

    def length(self, format_: str) -> str:
        """Write the reading of a length or count, and of the run before it."""
        size = self.source.variable("n")
        self.source.run.append(("B" if self.flexible else format_, size))
        self.flush()
        if self.flexible:
            with self.source.block(f"if {size} > 127"):
                self.source.line(f"{size}, at = read_uvarint(buffer, at, {size})")
        return size

    def array(self, field: Field, target: str, nullable: bool) -> None:
        source = self.source
        count = self.length("i")
        if self.flexible:
            source.line(f"{count} -= 1")
        if nullable:
            with source.block(f"if {count} == -1"):
                source.line(f"{target} = None")
            with source.block("else"):
                self.elements(field, target, count)
        else:
            self.elements(field, target, count)

    def elements(self, field: Field, target: str, count: str) -> None:
        source = self.source
        least = self.least(field.type)
        source.line(f"budget -= {count}")
        test = f"{count} < 0 or {count} * {least} > end - at or budget < 0"
        with source.block(f"if {test}"):
            source.line(f"refuse_count({field.name!r}, {count}, at, end)")
        if isinstance(field.type, str) and field.type in FIXED:
            code = FIXED[field.type]
            formats = f'f">{{{count}}}{code}"'
            if field.type == "uuid":
                formats = f'">" + "{code}" * {count}'
            source.line(f"{target} = list(unpack_from({formats}, buffer, at))")
            source.line(f"at += {count} * {least}")
            return
        source.line(f"{target} = []")
        with source.block(f"for _ in range({count})"):
            if isinstance(field.type, Struct):
                value = self.struct(field.type)
            else:
                value = source.variable(field.name)
                self.primitive(field, value, False)
            self.flush()
            source.line(f"{target}.append({value})")
            if self.in_turns:
                source.give_way()

    def single(self, struct: Struct, target: str, nullable: bool) -> None:
        """Write the reading of a structure that stands by itself."""
        source = self.source
        if not nullable:
            value = self.struct(struct)
            self.flush()
            source.line(f"{target} = {value}")
            return
        there = source.variable("there")
        source.run.append(("b", there))
        self.flush()
        with source.block(f"if {there} < 0"):
            source.line(f"{target} = None")
        with source.block("else"):
            value = self.struct(struct)
            self.flush()
            source.line(f"{target} = {value}")

    def tags(self, struct: Struct) -> dict[str, str]:
        """Write the reading of the tagged fields of a structure: their variables."""
        source = self.source
        known = struct.tagged_at(self.version)
        count = source.variable("tags")
        source.run.append(("B", count))
        self.flush()
        with source.block(f"if {count} > 127"):
            source.line(f"{count}, at = read_uvarint(buffer, at, {count})")
        if not known:
            with source.block(f"if {count}"):
                source.line(f"at = skip_tags(buffer, at, end, {count})")
                if self.in_turns:
                    source.line(f"work += {count}")
            return {}
        variables = {f.name: source.variable(f.name) for f in known}
        names = ", ".join(variables.values())
        reader = self.tag_reader(struct, known)
        with source.block(f"if {count}"):
            source.line(f"at, {names} = {reader}(buffer, at, end, {count})")
        with source.block("else"):
            for field in known:
                source.line(f"{variables[field.name]} = {default_of(field)}")
        return variables

    def tag_reader(self, struct: Struct, known: list[Field]) -> str:
        """Write a function of its own: tagged fields are rare and stay off the way."""
        inner = _Decoder(self.version, self.flexible)
        source = inner.source
        name = f"read_tags_of_{struct.name}"
        with source.block(f"def {name}(buffer, at, end, count)"):
            source.line(f"budget = {wire.ELEMENTS_MAX}")
            for field in known:
                source.line(f"{field.name} = {default_of(field)}")
            source.line("last = -1")
            source.line("check_tags(count)")
            with source.block("for _ in range(count)"):
                source.line("last, at, until = read_tag(buffer, at, end, last)")
                for i, field in enumerate(known):
                    with source.block(f"{'el' if i else ''}if last == {field.tag}"):
                        value = inner.field(field)
                        inner.flush()
                        source.line(f"{field.name} = {value}")
                with source.block("else"):
                    source.line("at = until")
                with source.block("if at != until"):
                    source.line(f"refuse_end({struct.name!r}, at, until)")
            source.line(f"return at, {', '.join(f.name for f in known)}")
        self.tag_readers += inner.tag_readers + source.text
        self.source.names |= source.names
        return name

    def least(self, type_: str | Struct) -> int:
        """The fewest bytes that a value of a type takes; at least one."""
        if isinstance(type_, str):
            if type_ in FIXED:
                return size_of([FIXED[type_]])
            return 1 if self.flexible else 2 if type_ == "string" else 4
        total = 1 if self.flexible else 0
        for field in type_.at(self.version):
            if field.array:
                total += 1 if self.flexible else 4
            elif isinstance(field.type, Struct) and self.version in field.null_versions:
                total += 1
            else:
                total += self.least(field.type)
        return max(total, 1)
