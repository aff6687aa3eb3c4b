"""Three questions that an analyst asks of the table, in Spark SQL."""

from typing import Any

QUERIES = {
    "Every record once?": """
        SELECT partition, count(*) AS records, count(DISTINCT offset) AS offsets,
               min(offset) AS first, max(offset) AS last
        FROM flights GROUP BY partition ORDER BY partition""",
    "Which carriers are late?": """
        SELECT f.carrier, count(*) AS flights, round(avg(f.dep_delay), 1) AS delay_min
        FROM (SELECT from_json(CAST(value AS STRING),
                               'carrier STRING, dep_delay DOUBLE') AS f FROM flights)
        GROUP BY f.carrier ORDER BY delay_min DESC LIMIT 5""",
    "Which aircraft flew most?": """
        SELECT CAST(key AS STRING) AS tail, count(*) AS flights,
               count(DISTINCT get_json_object(CAST(value AS STRING), '$.dest'))
                   AS destinations
        FROM flights WHERE key IS NOT NULL
        GROUP BY key ORDER BY flights DESC LIMIT 5""",
}


def ask(session: Any, path: str) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Column names and rows of each answer, from the Delta table at ``path``."""
    session.read.format("delta").load(path).createOrReplaceTempView("flights")
    answers = {}
    for question, sql in QUERIES.items():
        frame = session.sql(sql)
        answers[question] = (frame.columns, [list(row) for row in frame.collect()])
    return answers
