"""``lakelog sql``: statements on the tables by name, in a Spark of its own.

The problem: who wants to count the records of a topic should need no path, and no
notebook. The idea: Spark asks a metastore for each table that a statement names, so
nothing is registered when it starts, and a topic that was made since is there. A
statement that changes a table runs only if that was wanted; then nothing is committed
meanwhile to the tables that it names, as with ``lakelog table T --sql``.

The price: a JVM, some seconds; and answers are gathered here before they are printed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from jobs.extent import Extents
from jobs.owners.statement import held
from jobs.session import DELTA_PACKAGE, end_session, make_session, session_options

DATABASE: Final = "lakelog"
_DATABASES: Final = (DATABASE, "default")
_READS: Final = frozenset(
    [
        "CacheTable",
        "CreateViewCommand",
        "DescribeColumn",
        "DescribeDeltaDetailCommand",
        "DescribeFunction",
        "DescribeNamespace",
        "DescribeQueryCommand",
        "DescribeRelation",
        "ExplainCommand",
        "RefreshTable",
        "SetCatalogAndNamespace",
        "SetCommand",
        "SetNamespaceCommand",
        "ShowColumns",
        "ShowCreateTable",
        "ShowCurrentNamespaceCommand",
        "ShowFunctions",
        "ShowNamespaces",
        "ShowNamespacesCommand",
        "ShowPartitions",
        "ShowTableExtended",
        "ShowTableProperties",
        "ShowTables",
        "ShowTablesCommand",
        "ShowViews",
        "UncacheTable",
    ]
)
"""Commands of Spark and Delta that change no table."""
_COMMAND: Final = "org.apache.spark.sql.catalyst.plans.logical.Command"
_MAKES: Final = frozenset(
    {"CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect"}
)
_CLONES: Final = "CloneTableStatement"
_NAME: Final = "UnresolvedIdentifier"
_UNNAMED: Final = "PlanWithUnresolvedIdentifier"
_NAMED: Final = ("UnresolvedRelation", "UnresolvedTable")


class Writes(Exception):
    """A statement that would change a table, and nobody said that it may."""


class OnlyRead(Exception):
    """A statement that would create or replace a table by name, or may."""


_CATALOG: Final = "spark_catalog"
_HIDING: Final = frozenset(
    {
        "Call",
        "CompoundBody",
        "UnresolvedExecuteImmediate",
        "InsertIntoDir",
        _UNNAMED,
    }
)
"""Parts that may change something, which their text does not show: what stands in a
text or a block, what IDENTIFIER names, a query's result that becomes a directory."""


class Answer(NamedTuple):
    """What a statement gives: columns, and rows of Python values in their order."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def catalog_options(metastore: str) -> dict[str, str]:
    """What a session of Spark's needs to know the tables by name, as settings."""
    wanted = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
    ours = session_options(delta=True)
    return {
        "spark.jars.packages": DELTA_PACKAGE,
        **{key: ours[key] for key in wanted},
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": f"thrift://{metastore}",
    }


@contextmanager
def sql_session(metastore: str, aside: str) -> Iterator[Any]:
    """A session that knows the tables by name; what it has to write beside it writes
    into the directory ``aside``."""
    more = catalog_options(metastore) | {
        "spark.sql.warehouse.dir": aside,
        "spark.hadoop.hive.exec.scratchdir": f"{aside}/scratch",
        "spark.hadoop.hive.exec.local.scratchdir": f"{aside}/local",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    session = make_session("local[*]", "lakelog sql", delta=True, more=more)
    try:
        yield session
    finally:
        end_session(session)


def run(
    session: Any,
    statement: str,
    data_dir: Path,
    topics: Callable[[], Mapping[str, str]],
    hold_ms: int | None,
) -> Answer:
    """What one statement gives, once it is done.

    ``topics``: name in SQL -> topic. ``hold_ms``: for so long at most the tables are
    held that it changes; None: it may change none. Raises Writes, OnlyRead, NotInTime,
    and what Spark does.
    """
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    if is_read(session, plan):
        return _answer(session.sql(statement))
    if hold_ms is None:
        what = plan.nodeName()
        raise Writes(f"--write was not said, and {what} changes something: {statement}")
    if plan.nodeName() == _UNNAMED:  # it may be that of any statement
        raise OnlyRead(
            "what IDENTIFIER(...) names is not known before it runs; say the name "
            f"itself: {statement}"
        )
    if makes_by_name(plan):
        raise OnlyRead(
            "the catalog of Lakelog is only read: a table comes with the first records "
            f"of its topic and goes with it; give your own a path: {statement}"
        )
    known = topics()
    named = tables_of(plan, session.catalog.currentDatabase())
    with closing(Extents(data_dir)) as extents, ExitStack() as holds:
        for topic in dict.fromkeys(known[name] for name in named if name in known):
            holds.enter_context(held(extents, data_dir, topic, hold_ms))
        return _answer(session.sql(statement))


def is_read(session: Any, plan: Any) -> bool:
    """Whether a parsed statement changes no table: a query, or a known command."""
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    nodes = _nodes(plan)
    if any(node.endswith("Statement") for node in nodes):  # INSERT, RESTORE
        return False
    if _HIDING.intersection(nodes):
        return False
    if not is_instance_of(session._sc._gateway, plan, _COMMAND):
        return True
    return nodes[0] in _READS


def makes_by_name(plan: Any) -> bool:
    """Whether a parsed statement creates or replaces a table of the catalog's, or of a
    name that is not known yet: Delta replaces one before it asks the catalog, and its
    topic would stop."""
    if plan.nodeName() == _CLONES:
        name = _parts(plan.target().multipartIdentifier())
    elif plan.nodeName() in _MAKES:
        if plan.name().nodeName() != _NAME:
            return True
        name = _parts(plan.name().nameParts())
    else:
        return False
    return len(name) == 1 or name[0].lower() in _DATABASES


def _parts(identifier: Any) -> list[str]:
    """Of a name, without the catalog's own."""
    name: list[str] = identifier.mkString("\0").split("\0")
    return name[1:] if name[0].lower() == _CATALOG else name


def _nodes(plan: Any) -> list[str]:
    """The names of a plan's parts, its own first."""
    lines = str(plan.treeString()).splitlines()
    return [line.lstrip(" :+-'*!").partition(" ")[0] for line in lines]


def tables_of(plan: Any, current: str) -> list[str]:
    """The tables of ours that a parsed statement names, ``current`` being the database
    that is used, without queries inside of its expressions: what DELETE, UPDATE, MERGE,
    OPTIMIZE and ALTER change is among them."""
    leaves = plan.collectLeaves()
    parts = [leaves.apply(number) for number in range(leaves.size())]
    named = [one for one in parts if one.nodeName() in _NAMED]
    found = [_parts(one.multipartIdentifier()) for one in named]
    placed = [name if len(name) > 1 else [current, *name] for name in found]
    return [
        name[1].lower()
        for name in placed
        if len(name) == 2 and name[0].lower() == DATABASE
    ]


def _answer(frame: Any) -> Answer:
    names: list[str] = frame.columns
    if not names:
        return Answer([], [])
    from pyarrow import ArrowInvalid

    try:
        table = frame.toArrow()
    except ArrowInvalid:  # it casts no struct as OPTIMIZE answers with
        return Answer(names, [tuple(map(_plain, row)) for row in frame.collect()])
    columns: Sequence[list[Any]] = [column.to_pylist() for column in table.columns]
    return Answer(names, list(zip(*columns, strict=True)))


def _plain(value: Any) -> Any:
    """A value of a row, a struct as Arrow's would be."""
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def statements(text: str) -> list[str]:
    """The statements of a text, which end with ``;`` outside of quotes and comments."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] == ";":
            found.append(text[start:at])
            start = at + 1
        at = _behind(text, at)
    found.append(text[start:])
    return [one.strip() for one in found if one.strip()]


def _behind(text: str, at: int) -> int:
    """Where what begins there has ended: a character, a quoted text, a comment."""
    for opening, closing_ in (("--", "\n"), ("/*", "*/")):
        if text.startswith(opening, at):
            end = text.find(closing_, at + 2)
            return len(text) if end < 0 else end + len(closing_)
    quote = text[at]
    if quote not in "'\"`":
        return at + 1
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "`" else 1
    return at + 1
