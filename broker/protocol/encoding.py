"""Encoders, compiled: one straight-line function per message and version.

The function takes a message and returns buffers to be written one after the other.
Small parts are joined into one `bytes`; each `records` is an element of its own, the
very buffer that it was handed, so that a batch goes from disk or memory to the socket
without being copied here.

A value that does not fit its field is a mistake of ours and raises `struct.error`.
A field that the version does not carry is left out, whatever its value.
"""

import struct

from broker.protocol import wire
from broker.protocol.schema import FIXED, NO_UUID, Field, Struct, default_of, structs
from broker.protocol.source import Source


def encoder_source(
    message: Struct, version: int, flexible: bool, *, in_turns: bool = False
) -> tuple[str, dict[str, object]]:
    """The source of `encode(message)`, and the names that it refers to.

    ``in_turns``: a generator, that yields now and then and returns the buffers. The
    classes of the structures are referred to by name and are the caller's to add.
    """
    writer = _Encoder(version, flexible, in_turns)
    source = writer.source
    opaque = any(f.type == "records" for s in structs([message]) for f in s.fields)
    opaque = opaque or in_turns  # or all that was gathered were joined in the last one
    with source.block("def encode(message)"):
        if in_turns:
            source.begin_turns()
        if opaque:
            source.line("buffers = []")
        writer.open()
        writer.struct(message, "message")
        writer.flush()
        if opaque:
            with source.block("if parts"):
                source.line('buffers.append(b"".join(parts))')
            source.line("return buffers")
        else:
            source.line('return [b"".join(parts)]')
    source.names |= {
        "NO_UUID": NO_UUID,
        "pack": struct.pack,
        "small": wire.SMALL_UVARINTS,
        "uvarint": wire.uvarint,
        "tagged": wire.tagged,
    }
    return writer.tag_writers + source.text, source.names


class _Encoder:
    """Writes the writing of one message at one version."""

    def __init__(self, version: int, flexible: bool, in_turns: bool = False) -> None:
        self.version = version
        self.flexible = flexible
        self.in_turns = in_turns
        self.source = Source("pack")
        self.tag_writers = ""

    def open(self) -> None:
        self.source.line("parts = []")
        self.source.line("add = parts.append")

    def flush(self) -> None:
        """Write the run of fixed-size values that has gathered."""
        source = self.source
        if source.run:
            source.line(f"add({self.packed(source.run)})")
            source.run.clear()

    def packed(self, run: list[tuple[str, str]]) -> str:
        values = [v for _, v in run if v]
        if not values:
            return repr(bytes(len(run)))
        return f"{self.source.packer([f for f, _ in run])}({', '.join(values)})"

    def struct(self, struct: Struct, owner: str) -> None:
        for field in struct.at(self.version):
            self.field(field, f"{owner}.{field.name}")
        if self.flexible:
            self.tags(struct, owner)

    def field(self, field: Field, value: str) -> None:
        nullable = self.version in field.null_versions
        if field.array:
            self.array(field, value, nullable)
        elif isinstance(field.type, Struct):
            self.single(field.type, value, nullable)
        elif field.type == "records":
            self.records(value, nullable)
        else:
            self.primitive(field.type, value, nullable)

    def primitive(self, type_: str, value: str, nullable: bool) -> None:
        source = self.source
        if type_ in FIXED:
            source.run.append((FIXED[type_], value))
            return
        data, size = source.variable("data"), source.variable("n")
        turned = f"{value}.encode()" if type_ == "string" else value
        bias = 1 if self.flexible else 0
        plus = " + 1" if bias else ""
        if nullable:
            source.line(f"{data} = {value}")
            with source.block(f"if {data} is None"):
                source.line(f'{data} = b""')
                source.line(f"{size} = {bias - 1}")
            with source.block("else"):
                if type_ == "string":
                    source.line(f"{data} = {data}.encode()")
                source.line(f"{size} = len({data}){plus}")
        else:
            source.line(f"{data} = {turned}")
            source.line(f"{size} = len({data}){plus}")
        self.length("h" if type_ == "string" else "i", size)
        source.line(f"add({data})")

    def length(self, format_: str, size: str) -> None:
        """Write a length or count, and the run before it."""
        source = self.source
        if not self.flexible:
            source.run.append((format_, size))
            self.flush()
            return
        if not source.run:
            source.line(f"add(small[{size}] if {size} < 128 else uvarint({size}))")
            return
        with source.block(f"if {size} < 128"):
            source.line(f"add({self.packed([*source.run, ('B', size)])})")
        with source.block("else"):
            source.line(f"add({self.packed(source.run)})")
            source.line(f"add(uvarint({size}))")
        source.run.clear()

    def records(self, value: str, nullable: bool) -> None:
        """Write the length of some records, then hand over their buffers."""
        source = self.source
        data, size = source.variable("records"), source.variable("n")
        source.line(f"{data} = {value}")
        with source.block(f"if {data} is None"):
            source.line(f"{data} = ()")
            source.line(f"{size} = {-1 if nullable else 0}")
        with source.block(f"elif isinstance({data}, (list, tuple))"):
            source.line(f"{size} = sum(map(len, {data}))")
        with source.block("else"):
            source.line(f"{size} = len({data})")
            source.line(f"{data} = ({data},)")
        if self.flexible:
            source.line(f"{size} += 1")
        self.length("i", size)
        with source.block(f"if {size} > {1 if self.flexible else 0}"):
            source.line('buffers.append(b"".join(parts))')
            source.line("parts.clear()")
            source.line(f"buffers += {data}")

    def array(self, field: Field, value: str, nullable: bool) -> None:
        source = self.source
        items, count = source.variable(field.name), source.variable("n")
        plus = " + 1" if self.flexible else ""
        source.line(f"{items} = {value}")
        if nullable:
            with source.block(f"if {items} is None"):
                source.line(f"{items} = ()")
                source.line(f"{count} = {0 if self.flexible else -1}")
            with source.block("else"):
                source.line(f"{count} = len({items}){plus}")
        else:
            source.line(f"{count} = len({items}){plus}")
        self.length("i", count)
        self.elements(field, items)

    def elements(self, field: Field, items: str) -> None:
        source = self.source
        if field.type == "uuid":
            source.line(f'add(b"".join({items}))')
            return
        if isinstance(field.type, str) and field.type in FIXED:
            code = FIXED[field.type]
            source.line(f'add(pack(f">{{len({items})}}{code}", *{items}))')
            return
        item = source.variable("item")
        with source.block(f"for {item} in {items}"):
            if isinstance(field.type, Struct):
                self.struct(field.type, item)
            else:
                self.primitive(field.type, item, False)
            self.flush()
            if self.in_turns:
                source.give_way('buffers.append(b"".join(parts))', "parts.clear()")

    def single(self, struct: Struct, value: str, nullable: bool) -> None:
        """Write a structure that stands by itself."""
        source = self.source
        owner = source.variable("part")
        source.line(f"{owner} = {value}")
        if not nullable:
            self.struct(struct, owner)
            return
        self.flush()
        with source.block(f"if {owner} is None"):
            source.line(r'add(b"\xff")')
        with source.block("else"):
            source.run.append(("b", "1"))
            self.struct(struct, owner)
            self.flush()

    def tags(self, struct: Struct, owner: str) -> None:
        """Write the tagged fields of a structure: mostly that there are none."""
        source = self.source
        known = struct.tagged_at(self.version)
        if not known:
            source.run.append(("x", ""))
            return
        self.flush()
        tests = " or ".join(_differs(f, owner) for f in known)
        with source.block(f"if {tests}"):
            source.line(f"add({self.tag_writer(struct, known)}({owner}))")
        with source.block("else"):
            source.line(r'add(b"\x00")')

    def tag_writer(self, struct: Struct, known: list[Field]) -> str:
        """Write functions of their own: tagged fields are rare and stay off the way."""
        inner = _Encoder(self.version, self.flexible)
        source = inner.source
        name = f"write_tags_of_{struct.name}"
        for field in known:
            with source.block(f"def {name}_{field.tag}(value)"):
                inner.open()
                inner.field(field, "value")
                inner.flush()
                source.line('return b"".join(parts)')
        with source.block(f"def {name}(owner)"):
            source.line("said = []")
            for field in known:
                test = _differs(field, "owner")
                if field.optional and isinstance(field.type, Struct):
                    test += f" and owner.{field.name} != {field.type.name}()"
                with source.block(f"if {test}"):
                    value = f"{name}_{field.tag}(owner.{field.name})"
                    source.line(f"said.append(({field.tag}, {value}))")
            source.line("return tagged(said)")
        self.tag_writers += inner.tag_writers + source.text
        self.source.names |= source.names
        return name


def _differs(field: Field, owner: str) -> str:
    """Whether a tagged field travels: Kafka leaves out what equals its default."""
    default = default_of(field)
    test = "is not" if default == "None" else "!="
    return f"{owner}.{field.name} {test} {default}"
