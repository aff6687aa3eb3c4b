"""A Parquet file of rows, whose columns of ours go by our names.

The problem: an owner's file may spell them otherwise (`lakehouse.column_names`), the
fields of a header as well, and whoever reads one asks for them by name. The idea: the
names are changed here, where each data file is opened, and nowhere else: what is asked
for and what comes back is called as we call it. No value is touched: an array of
headers is looked at by another type.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.column_names import renamed

_HEADERS: Final = "headers"
_PAIR: Final = "key", "value"
_LISTS: Final[Any] = (
    (pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list),
)  # fmt: skip


class RowsFile(pq.ParquetFile):
    """Opens as a ``pq.ParquetFile`` does; raises TableUnreadable where nobody knows
    which column is meant."""

    def __init__(self, path: str, **how: Any) -> None:
        super().__init__(path, **how)
        schema: Any = super().schema_arrow
        self._ours = renamed(schema.names, path)
        self._theirs = {ours: theirs for theirs, ours in self._ours.items()}
        self._schema = schema
        for at, name in enumerate(map(self._called, schema.names)):
            if name in self._theirs or name == _HEADERS:
                field = _as_ours(schema.field(at), name, path)
                if field is not None:
                    self._schema = self._schema.set(at, field)
        self._is_named_so = self._schema is schema

    @property
    def schema_arrow(self) -> Any:
        """What Arrow makes of its columns, by our names."""
        return self._schema

    def read_row_group(
        self, i: int, columns: Sequence[str] | None = None, *how: Any, **more: Any
    ) -> Any:
        """As that of a ``pq.ParquetFile``."""
        return self._named(
            super().read_row_group(i, self._asked(columns), *how, **more)
        )

    def read(self, columns: Sequence[str] | None = None, *how: Any, **more: Any) -> Any:
        """As that of a ``pq.ParquetFile``."""
        return self._named(super().read(self._asked(columns), *how, **more))

    def iter_batches(
        self,
        batch_size: int = 65_536,
        row_groups: Any = None,
        columns: Sequence[str] | None = None,
        *how: Any,
        **more: Any,
    ) -> Iterator[Any]:
        """As that of a ``pq.ParquetFile``."""
        asked = self._asked(columns)
        found = super().iter_batches(batch_size, row_groups, asked, *how, **more)
        return map(self._named, found)

    def _called(self, name: str) -> str:
        return self._ours.get(name, name)

    def _asked(self, columns: Sequence[str] | None) -> list[str] | None:
        """As the file calls them."""
        if columns is None:
            return None
        return [self._theirs.get(name, name) for name in columns]

    def _named(self, rows: Any) -> Any:
        """A table or a batch, by our names."""
        if self._is_named_so:
            return rows
        names = [self._called(name) for name in rows.schema.names]
        columns = [
            _viewed(column, self._schema.field(name).type)
            if name == _HEADERS
            else column
            for name, column in zip(names, rows.columns, strict=True)
        ]
        return type(rows).from_arrays(columns, names=names)


def _as_ours(field: Any, name: str, path: str) -> Any:
    """A field by our name, and with those of a header in it; None: it is so."""
    kind = _pairs_as_ours(field.type, path) if name == _HEADERS else None
    if kind is None:
        return None if field.name == name else field.with_name(name)
    return field.with_name(name).with_type(kind)


def _pairs_as_ours(kind: Any, path: str) -> Any:
    """The type of headers whose fields go by our names; None: it is that."""
    listed = next((made for is_it, made in _LISTS if is_it(kind)), None)
    if listed is None or not pa.types.is_struct(kind.value_type):
        return None
    fields = [kind.value_type.field(n) for n in range(kind.value_type.num_fields)]
    called = renamed([field.name for field in fields], path, _PAIR)
    if not called:
        return None
    pair = [field.with_name(called.get(field.name, field.name)) for field in fields]
    return listed(kind.value_field.with_type(pa.struct(pair)))


def _viewed(column: Any, kind: Any) -> Any:
    """The same values, whose fields have other names."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([part.view(kind) for part in column.chunks], kind)
    return column.view(kind)
