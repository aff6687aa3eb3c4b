"""Batches that were read together, and what was learnt of all of them at once.

The problem: of a batch with one small record, what Python asks of it (where it begins,
how it is compressed, whether its checksum is right) takes twenty times as long as its
record. The idea: who reads many of them at once asks all of them by columns, and hands
on what it learnt with the bytes. The price: a copy of those that lie apart.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from broker.records import kernels
from broker.records.batch import CODEC_NONE, Buffer
from broker.records.layout import CODEC_BITS

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Whole batches, in order, whose checksums are right.

    ``data``: what they lie in. Four int64 arrays of one length: ``at``, where each
    begins there; ``length``, of each in bytes; ``records``, what its header says that
    it has; ``attributes``, of the header.
    """

    data: Buffer
    at: Ints
    length: Ints
    records: Ints
    attributes: Ints

    def __len__(self) -> int:
        return len(self.at)

    def cut(self, some: Any) -> "Run":
        """Some of them: a slice, or a mask."""
        return Run(
            self.data, self.at[some], self.length[some], self.records[some],
            self.attributes[some],
        )  # fmt: skip

    @property
    def codecs(self) -> Ints:
        """As `BatchHeader.codec`, of each."""
        return self.attributes & CODEC_BITS

    @property
    def is_plain(self) -> bool:
        """Whether nothing is compressed."""
        return bool((self.codecs == CODEC_NONE).all())

    def batches(self) -> list[memoryview]:
        """Each of them, not copied."""
        view = memoryview(self.data)
        spans = zip(self.at.tolist(), self.length.tolist(), strict=True)
        return [view[at : at + length] for at, length in spans]

    def joined(self) -> npt.NDArray[np.uint8]:
        """Their bytes, one behind the other."""
        count = len(self)
        joined = np.empty(int(self.length.sum()), np.uint8)
        kernels.gather(
            np.frombuffer(self.data, np.uint8),
            np.ascontiguousarray(self.at), np.ascontiguousarray(self.length),
            np.empty(count + 1, np.int32), np.zeros((count + 7) // 8, np.uint8), joined,
        )  # fmt: skip
        return joined
