"""What the coordinator of transactions must know after a restart, a row per id.

The value is the transactions' own text (``broker/transactions/snapshot.py``); the
catalog keeps it and does not read it. Kafka has it as ``TransactionLogValue`` in
``__transaction_state``.
"""

from sqlalchemy import Connection, select
from sqlalchemy import delete as delete_from

from broker.catalog.schema import transactions
from broker.catalog.upserts import upsert


def store(connection: Connection, transactional_id: str, value: str) -> None:
    """Write an id's value over what was there."""
    row = {"transactional_id": transactional_id, "value": value}
    upsert(connection, transactions, [row])


def load(connection: Connection) -> dict[str, str]:
    """The values of all ids."""
    rows = connection.execute(select(transactions))
    return {row.transactional_id: row.value for row in rows}


def delete(connection: Connection, transactional_id: str) -> None:
    """Forget an id; nothing happens if it is not known."""
    connection.execute(
        delete_from(transactions).where(
            transactions.c.transactional_id == transactional_id
        )
    )
