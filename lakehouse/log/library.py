"""What the library does to a table's log for us: odd tables, checkpoints.

The problem: a table whose owner turned features on asks of a commit what only the
library knows; and a checkpoint is the whole state, in a format of its own. The idea:
both stay with it. The price: it reads the whole log each time, 5 ms of a thousand files
and half a second of a hundred thousand. Some damage fells it: see `panics_raised`.

Used by the compactor's process only; everything here blocks.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from lakehouse.durable import sync_directory, sync_file
from lakehouse.errors import CommitRefused, TableMissing
from lakehouse.log.delta_log import LOG_DIRECTORY
from lakehouse.log.entry import Description, Removal, Removals, Replacement, Round
from lakehouse.new_file import NewFile, partition_value, statistics

_NO_HOOKS = deltalake.PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)


def commit_round(path: str, read_version: int, added: Round) -> bool:
    """Write the entry of a round; False if the table is not at ``read_version``.

    Raises CommitRefused when somebody was faster, or the library knows a reason.
    """
    table = _open(path)
    if table.version() != read_version:
        return False
    transactions = _applications(added.transactions)
    _write(table, [_add(file) for file in added.files], added.provenance, transactions)
    return True


def commit_removals(path: str, read_version: int, gone: Removals) -> bool:
    """Write the entry of what leaves; returns and raises as `commit_round`."""
    table = _open(path)
    if table.version() != read_version:
        return False
    actions = [_remove(file, gone.now_ms) for file in gone.files]
    _write(table, actions, gone.provenance, [])
    return True


def commit_replacement(path: str, read_version: int, replaced: Replacement) -> bool:
    """Write the entry of files that come in the place of others; returns and raises as
    `commit_round`."""
    table = _open(path)
    if table.version() != read_version:
        return False
    changes = replaced.changes_data
    actions: list[AddAction | RemoveAction] = [
        *(_remove(file, replaced.now_ms, changes) for file in replaced.gone),
        *(_add(file, changes) for file in replaced.files),
    ]
    _write(table, actions, replaced.provenance, [])
    return True


def commit_description(path: str, read_version: int, described: Description) -> bool:
    """Write the entry of what a table says of its topic; returns and raises as
    `commit_round`."""
    table = _open(path)
    if table.version() != read_version:
        return False
    transactions = _applications(described.transactions)
    if not described.properties:
        _write(table, [], described.provenance, transactions)
        return True
    try:
        with panics_raised():
            table.alter.set_table_properties(
                dict(described.properties),
                raise_if_not_exists=False,
                commit_properties=deltalake.CommitProperties(
                    custom_metadata=described.provenance,
                    app_transactions=transactions,
                    max_commit_retries=0,
                ),
                post_commithook_properties=_NO_HOOKS,
            )
    except (CommitFailedError, DeltaError) as error:
        raise CommitRefused(f"{path}: {error}") from error
    return True


def opens(path: str) -> bool:
    """Whether the library, and so an owner who uses it, can open a table."""
    return why_closed(path) is None


def why_closed(path: str) -> DeltaError | OSError | None:
    """Why it cannot; None: it can."""
    try:
        with panics_raised():
            deltalake.DeltaTable(path)
    except (DeltaError, OSError) as error:
        return error
    return None


@contextmanager
def panics_raised() -> Iterator[None]:
    """Where the library falls over what is damaged, that is an error as any other.

    A panic, Rust's way to end a program, is no Exception, and cannot be imported.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DeltaError(f"the library fell: {error}") from error


def checkpoint(path: str, version: int) -> None:
    """Write the state at a version, durably; one that is there stays.

    Raises CommitRefused and OSError.
    """
    try:
        with panics_raised():
            deltalake.DeltaTable(path, version=version).create_checkpoint()
    except DeltaError as error:
        raise CommitRefused(f"{path}: {error}") from error
    directory = os.path.join(path, LOG_DIRECTORY)
    sync_file(os.path.join(directory, f"{version:020d}.checkpoint.parquet"))
    sync_file(os.path.join(directory, "_last_checkpoint"))
    sync_directory(directory)


def _open(path: str) -> deltalake.DeltaTable:
    try:
        with panics_raised():
            return deltalake.DeltaTable(path)
    except TableNotFoundError as error:
        raise TableMissing(f"{path} holds no Delta table") from error
    except DeltaError as error:
        raise CommitRefused(f"{path}: {error}") from error


def _applications(found: Mapping[str, int]) -> list[deltalake.Transaction]:
    return [deltalake.Transaction(name, version) for name, version in found.items()]


def _write(
    table: deltalake.DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    said: Mapping[str, Any],
    transactions: list[deltalake.Transaction],
) -> None:
    """One try: the library's own retry would let an append pass an append."""
    try:
        with panics_raised():
            table.create_write_transaction(
                list(actions),
                "append",
                table.schema(),
                partition_by=["partition"],
                commit_properties=deltalake.CommitProperties(
                    custom_metadata=dict(said),
                    app_transactions=transactions,
                    max_commit_retries=0,
                ),
                post_commithook_properties=_NO_HOOKS,
            )
    except (CommitFailedError, DeltaError) as error:
        raise CommitRefused(f"{table.table_uri}: {error}") from error


def _remove(file: Removal, now_ms: int, changes_data: bool = True) -> RemoveAction:
    """Raises CommitRefused: the log would not know a file without its vector."""
    if file.vector is not None:
        raise CommitRefused(
            f"{file.path} has a deletion vector, and the library would leave it in"
        )
    partition = {"partition": partition_value(file.partition)}
    return RemoveAction(file.path, changes_data, now_ms, file.size, partition)


def _add(file: NewFile, changes_data: bool = True) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"partition": partition_value(file.partition)},
        modification_time=file.modified_ms,
        data_change=changes_data,
        stats=statistics(file),
    )
