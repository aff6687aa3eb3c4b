"""What one batch may hold, whoever reads it: at produce, in the compactor, cold reads.

The problem. A few kilobytes may decompress to millions of records or headers, and each
costs tens of bytes as a row: whoever reads such a batch needs gigabytes, again at every
attempt. The idea: the limits are stated once, held when a batch is produced, before
anything is made per record or header, and everything behind may count on them.

The price: Kafka has no such limits. Clients bound a batch to about 1 MB before
compression, which is far below all of them.
"""

from typing import Final

UNCOMPRESSED_BYTES_MAX: Final = 64 << 20
"""Bytes of a batch's records when decompressed."""

RECORDS_MAX: Final = 4 << 20
"""Records of a batch."""

WRAPPERS_MAX: Final = 1_000
"""Compressed messages of one old message set, each of which is decompressed by itself:
a million of them would take seconds of a thread that others wait for. Clients of that
age send one, and Kafka takes no more."""

HEADERS_MAX: Final = 1 << 20
"""Headers of all records of a batch together."""

RECORD_ERRORS_MAX: Final = 2_000
"""Records of a refused batch, or request, that are named in the answer, the first ones
(KIP-467). Each takes some 300 bytes until it is answered, and a microsecond or two of
the loop."""

RECORD_ERRORS_MIN: Final = 20
RECORD_ERROR_BYTES: Final = 32
"""One more is named for so many bytes of a batch: two hundred may decompress to a
million records that are all at fault."""
