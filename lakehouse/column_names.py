"""What columns of ours are called in a file or a table that its owner wrote.

The problem: names of columns have no case in Delta and in Spark, and an owner who
writes ``SELECT KEY, VALUE`` over a table has files whose columns are called so. Spark
reads them by our names; a reader that compares letters finds nothing, and makes
tombstones of all records. The idea: a column is what is called exactly so, or else the
only one that is called so but for the case. Where several are, nobody knows which is
meant, and that is said. Pure.

Source: the Delta transaction log protocol, "Schema Serialization Format"; Spark's
``spark.sql.caseSensitive``.
"""

import os
from collections.abc import Collection, Mapping
from typing import Any, Final

from lakehouse.errors import TableUnreadable

OURS: Final = (
    "partition", "offset", "timestamp", "timestampType", "topic", "key", "value",
    "headers",
)  # fmt: skip


def alike(name: str, names: Collection[str]) -> list[str]:
    """What of ``names`` may be meant by a name: that alone if it is one of them."""
    if name in names:
        return [name]
    folded = name.lower()
    return [one for one in names if one.lower() == folded]


def value_of(said: Mapping[str, Any], name: str) -> Any:
    """What is said of a column; None: nothing, or of several that may be meant."""
    if name in said:
        return said[name]
    found = alike(name, said)
    return said[found[0]] if len(found) == 1 else None


def spelled(name: str, names: Collection[str], path: str) -> str | None:
    """What a column is called in the file at ``path``; None: it has none. Raises
    TableUnreadable where several may be meant."""
    found = alike(name, names)
    if len(found) > 1:
        raise TableUnreadable(
            f"{os.path.basename(path)} has the columns {' and '.join(found)}, and none "
            f"is called {name}"
        )
    return found[0] if found else None


def there(name: str, names: Collection[str], wanted: Collection[str]) -> list[str]:
    """What of a file's ``names`` may be meant by a name that is wanted beside others:
    none that is another one of these."""
    return alike(name, [one for one in names if one == name or one not in wanted])


def renamed(
    names: Collection[str], path: str, ours: Collection[str] = OURS
) -> dict[str, str]:
    """As a column of ours is called in a file -> as we call it, where that differs.
    Raises TableUnreadable."""
    missing = [name for name in ours if name not in names]
    found = {spelled(name, names, path): name for name in missing}
    return {theirs: name for theirs, name in found.items() if theirs is not None}
