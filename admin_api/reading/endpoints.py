"""Read records of a topic, or follow what comes."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response

from admin_api.access.callers import CALLER, Asking
from admin_api.access.tokens import Role
from admin_api.dependencies import (
    ID_MAX,
    BaseDep,
    ClockDep,
    KafkaDep,
    LakeDep,
    ReadersDep,
    TopicNameDep,
)
from admin_api.fields import TIME_MS
from admin_api.integers import DIGITS
from admin_api.reading.filters import Predicate, compile_filter
from admin_api.reading.following import Following
from admin_api.reading.gather import Limits
from admin_api.reading.lookback import COUNTED_MAX, Lookback
from admin_api.reading.plan import PARTITIONS_MAX, Wanted, from_the_end, plan
from admin_api.reading.progress import Progress
from admin_api.reading.schemas import RecordList
from admin_api.reading.session import Question, read
from admin_api.reading.silence import check_places
from admin_api.reading.tail import Tail, TailLimits, follow

router = APIRouter(prefix="/v1/topics/{topic_name}", tags=["Records"])
TIMESTAMP_MAX = 2**53
OFFSET_MAX = 10**18 - 1
STREAM = {
    "description": "Events `record` with a record as JSON, their id its "
    "`partition:offset`; at the end `end` or `problem`.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}

PartitionsQuery = Annotated[
    list[Annotated[int, Query(ge=0, le=ID_MAX), DIGITS]] | None,
    Query(
        alias="partition",
        examples=[[0]],
        description="These only; may be said several times. A topic with more than "
        f"{PARTITIONS_MAX} is refused unless some are chosen, as many at most.",
    ),
]
PlacesQuery = Annotated[
    list[str] | None,
    Query(
        alias="at",
        description="From where, `partition:offset` for each partition to be read.",
        examples=[["0:17", "1:4"]],
    ),
]
FilterQuery = Annotated[
    str,
    Query(
        alias="filter",
        description="Which records: conditions on `partition`, `offset`, `timestamp` "
        '(ms), `key`, `value`, `headers["name"]`; below `key` and `value` what is in '
        'their JSON, as `value.user.id` or `value["items"][0]`; compared by `==`, '
        "`!=`, `<`, `<=`, `>`, `>=`, `contains`, `startsWith`, `endsWith` with "
        "numbers, 'texts', `true`, `false`, `null`; joined by `&&`, `||`, `!` and "
        "parentheses.",
        examples=["value.country == 'CH' && !(key startsWith 'test-')"],
    ),
]


class Condition(NamedTuple):
    """A filter, as it was written and as it is asked."""

    text: str
    wanted: Predicate


def _condition(text: FilterQuery = "") -> Condition:
    return Condition(text, compile_filter(text))


def _limits(
    records: Annotated[
        int,
        Query(
            alias="limit", ge=1, le=1000, description="Records at most.", examples=[10]
        ),
        DIGITS,
    ] = 100,
    bytes_max: Annotated[
        int,
        Query(
            ge=1,
            le=16 << 20,
            description="Bytes of keys, values and headers: the record that passes "
            "them is the last one.",
            examples=[65536],
        ),
        DIGITS,
    ] = 1 << 20,
    timeout_ms: Annotated[
        int,
        Query(ge=1, le=30_000, description="How long to look.", examples=[1000]),
        DIGITS,
    ] = 5_000,
) -> Limits:
    return Limits(records, bytes_max, timeout_ms)


def _wanted(
    partitions: PartitionsQuery = None,
    places: PlacesQuery = None,
    offset: Annotated[
        int | None,
        Query(
            ge=0,
            le=OFFSET_MAX,
            description="From this one, of each partition.",
            examples=[0],
        ),
        DIGITS,
    ] = None,
    timestamp_ms: Annotated[
        int | None,
        Query(
            ge=0,
            le=TIMESTAMP_MAX,
            description="From the first of that time on, milliseconds since 1970.",
            examples=[TIME_MS],
        ),
        DIGITS,
    ] = None,
    last: Annotated[
        int | None,
        Query(
            ge=0,
            le=OFFSET_MAX,
            description="The last so many records of each partition, a filter aside. "
            f"Of more than {COUNTED_MAX} of all together, or where half of the time is "
            "not enough to count them: so many offsets, of which some may be no "
            "records.",
            examples=[10],
        ),
        DIGITS,
    ] = None,
) -> Wanted:
    return Wanted(partitions or (), offset, timestamp_ms, last, places or ())


def _following(
    partitions: PartitionsQuery = None,
    places: PlacesQuery = None,
) -> Wanted:
    return Wanted(partitions or (), places=places or ())


def _tail_limits(
    records: Annotated[
        int,
        Query(
            alias="limit",
            ge=1,
            le=1_000_000,
            description="Records at most.",
            examples=[10],
        ),
        DIGITS,
    ] = 1_000_000,
    duration_s: Annotated[
        int,
        Query(
            ge=0,
            le=86_400,
            description="For how long at most, in seconds.",
            examples=[0],
        ),
        DIGITS,
    ] = 3_600,
) -> TailLimits:
    return TailLimits(records, duration_s * 1000)


ConditionDep = Annotated[Condition, Depends(_condition)]


@router.get("/records", summary="Read records", response_model=RecordList)
async def read_records(
    request: Request,
    base: BaseDep,
    name: TopicNameDep,
    kafka: KafkaDep,
    readers: ReadersDep,
    clock: ClockDep,
    lake: LakeDep,
    wanted: Annotated[Wanted, Depends(_wanted)],
    limits: Annotated[Limits, Depends(_limits)],
    condition: ConditionDep,
) -> Response:
    """Records of chosen partitions, from an offset, a time, or before the end.

    Without a beginning: from the start of the log. They are read up to the ends that
    the partitions have now; `ended_by` says whether a limit came first, and
    `metadata.next` reads on. Keys, values and headers are text where they are text, and
    base64 otherwise. It ends with 401 when the token is revoked or expires meanwhile.
    """

    async def found() -> Response:
        spans, firsts = await plan(kafka, name, wanted)
        back = None if wanted.last is None else Lookback(wanted.last, firsts)
        question = Question(name, spans, limits, condition.wanted, condition.text, back)
        return await read(question, readers, clock, lake, base)

    asking: Asking = request.scope[CALLER]
    return await asking.while_allowed(Role.VIEWER, found())


@router.get(
    "/tail",
    summary="Follow a topic",
    response_class=Response,
    responses={200: STREAM},
)
async def tail_records(
    request: Request,
    name: TopicNameDep,
    kafka: KafkaDep,
    readers: ReadersDep,
    clock: ClockDep,
    lake: LakeDep,
    wanted: Annotated[Wanted, Depends(_following)],
    limits: Annotated[TailLimits, Depends(_tail_limits)],
    condition: ConditionDep,
) -> Any:
    """Server-sent events of records as they come, from the end of the log on.

    Who was interrupted says `at` to go on where he was; else what came meanwhile is
    passed over. Without chosen partitions those that are added are followed, too. It
    ends when the token is revoked or expires, and when the topic is deleted, also where
    it is made again: whoever wants the new one asks again; and where the table's file
    with the next records is gone, with how to read behind it. At most 32 clients read
    at a time, and 429 is the answer to more.
    """
    followed = await from_the_end(kafka, name, wanted)
    reader = readers.reader(name, followed.starts)
    following = Following(kafka, name, reader, followed)
    progress = Progress(followed.starts, clock.monotonic_ms)
    asking: Asking = request.scope[CALLER]

    async def check() -> None:
        await asking.require_still(Role.VIEWER)
        await following.look(all_of_it=not (wanted.partitions or wanted.places))
        if stalled := progress.stalled():
            await lake.threads.run(check_places, lake, name, stalled)

    events = follow(
        reader, limits, condition.wanted, clock.monotonic_ms, check, progress
    )
    return Tail(reader, events, limits.duration_ms)
