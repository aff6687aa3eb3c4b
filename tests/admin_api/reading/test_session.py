"""An answer says how to read on, in the words of the question."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.reading.filters import compile_filter
from admin_api.reading.gather import Gathered, Limits
from admin_api.reading.readers import Readers
from admin_api.reading.schemas import Ending
from admin_api.reading.session import Question, answer, read
from broker.clock import SystemClock
from tests.support.laked import make_table

TEXT = "value.a == 'x & y'"
QUESTION = Question(
    "orders", {0: (0, 9), 1: (0, 9)}, Limits(5, 99, 700), compile_filter(TEXT), TEXT
)


def test_what_a_limit_cut_short_leads_on_with_the_same_question():
    found = Gathered({1: 4, 0: 9}, ended_by=Ending.RECORDS, scanned=13)
    said = answer(QUESTION, found, "http://plane")
    url = urlsplit(said.metadata.next)
    assert (url.netloc, url.path) == ("plane", "/v1/topics/orders/records")
    assert parse_qs(url.query) == {
        "limit": ["5"],
        "bytes_max": ["99"],
        "timeout_ms": ["700"],
        "filter": [TEXT],
        "at": ["0:9", "1:4"],
    }
    assert [(one.partition_id, one.offset) for one in said.positions] == [
        (0, 9),
        (1, 4),
    ]


def test_what_was_read_to_its_end_leads_nowhere():
    said = answer(QUESTION, Gathered({0: 9, 1: 9}), "http://plane")
    assert (said.metadata.next, said.ended_by) == (None, Ending.END)


class Silent:
    """A consumer of which nothing comes, as of a table that the broker cannot read."""

    def assign(self, places):
        pass

    def poll(self, _timeout):
        return None

    def unassign(self):
        pass

    def close(self):
        pass


async def asked(tmp_path):
    readers = Readers("nobody:1", make=lambda _: Silent())
    spans, limits = {0: (0, 10)}, Limits(5, 99, 20)
    question = Question("orders", spans, limits, compile_filter(""), "")
    return await read(question, readers, SystemClock(), Lake(tmp_path), "http://plane")


def test_silence_of_a_table_whose_file_is_gone_is_no_empty_answer(tmp_path):
    writer = make_table(tmp_path, "orders")
    writer.add(0, 0, 10)
    asyncio.run(asked(tmp_path))  # it is whole: the broker is slow
    [file] = Path(writer.path).rglob("partition=0/*.parquet")
    file.unlink()
    with pytest.raises(Problem, match="cannot be read"):
        asyncio.run(asked(tmp_path))
