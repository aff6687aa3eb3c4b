"""The text of a codec: indentation, names, and one `struct` call for a run."""

import struct

from broker.protocol.source import Source, size_of


def test_blocks_are_indented_and_never_empty():
    source = Source("pack")
    with source.block("try"):
        with source.block("for _ in x"):
            pass
        source.line("f()")
    assert source.text == "try:\n    for _ in x:\n        pass\n    f()\n"


def test_variables_have_names_of_their_own():
    source = Source("pack")
    assert source.variable("n") != source.variable("n")


def test_a_packer_is_a_method_of_a_compiled_struct():
    source = Source("pack")
    name = source.packer(["i", "?", "16s", "x"])
    assert name == "pack_itux"
    expected = struct.pack(">i?16sx", 1, True, b"u" * 16)
    assert source.names[name](1, True, b"u" * 16) == expected


def test_sizes_are_those_of_struct():
    formats = ["b", "B", "?", "h", "H", "i", "q", "d", "16s", "x"]
    assert size_of(formats) == struct.calcsize(">" + "".join(formats))
