"""An answer says how to read on, in the words of the question."""

from urllib.parse import parse_qs, urlsplit

from admin_api.reading.filters import compile_filter
from admin_api.reading.gather import Gathered, Limits
from admin_api.reading.schemas import Ending
from admin_api.reading.session import Question, answer

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
