"""``lakelog transactions`` as a program, against a broker that listens."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from broker.runtime.services import Broker
from tests.support.process import Told, told
from tests.support.rig import create, rig
from tests.support.serving import on_loop, serving
from tests.support.transacting import record
from tests.support.transactional import TIMEOUT_MS, Transactional

Command = Callable[..., Awaitable[Told]]


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Broker, Command]]:
    """A broker with a transaction that is known, and one that hangs in t-0."""
    async with rig(path) as broker, serving(broker=broker) as server:
        broker.advertised = server.address
        partition = await create(broker, "t", partitions=2)
        await record(partition, 70)
        producer = await Transactional.begun(broker, "known")
        await producer.add(broker.partitions.named("t", 1).key, "g")
        bootstrap = "{}:{}".format(*server.address)

        async def command(*words: str) -> Told:
            whole = ("transactions", *words, "--bootstrap", bootstrap)
            return await asyncio.to_thread(told, *whole)

        yield broker, command
        await broker.transactions.close()


def test_transactions_are_listed_and_described(tmp_path):
    async def story():
        async with served(tmp_path) as (broker, command):
            done = await command("list", "--state", "Ongoing", "--json")
            [listed] = json.loads(done.output)
            assert listed == {
                "transactional_id": "known",
                "state": "Ongoing",
                "producer_id": broker.transactions.describe("known").producer_id,
            }
            described = json.loads(
                (await command("describe", "known", "--json")).output
            )
            del described["producer_id"], described["started_ms"]
            assert described == {
                "transactional_id": "known",
                "state": "Ongoing",
                "producer_epoch": 0,
                "timeout_ms": TIMEOUT_MS,
                "partitions": ["__consumer_offsets-3", "t-1"],
            }
            assert (await command("list", "--pattern", "k")).output == "(none)\n"

    on_loop(story)


def test_one_that_hangs_is_aborted_where_it_begins(tmp_path):
    async def story():
        async with served(tmp_path) as (broker, command):
            log = broker.partitions.named("t", 0).log
            assert (log.durable, log.stable) == (1, 0)
            place = ("--topic", "t", "--partition", "0", "--start-offset")
            wrong = await command("abort", *place, "5")
            sentence = "lakelog: no transaction begins in t-0 at 5\n"
            assert (wrong.code, wrong.errors) == (1, sentence)
            assert log.stable == 0
            done = await command("abort", *place, "0", "--json")
            assert json.loads(done.output)["producer_id"] == 70
            assert (log.durable, log.stable) == (2, 2)
            assert log.aborted(0, 2) == [(70, 0)]

    on_loop(story)


def test_one_that_is_known_is_aborted_and_its_producer_fenced(tmp_path):
    async def story():
        async with served(tmp_path) as (broker, command):
            before = broker.transactions.describe("known")
            done = await command("abort", "known", "--json")
            assert json.loads(done.output) == {
                "transactional_id": "known",
                "state": "Ongoing",
                "fenced_epoch": before.producer_epoch,
            }
            after = broker.transactions.describe("known")
            assert (after.state, after.partitions) == ("Empty", frozenset())
            assert after.producer_epoch > before.producer_epoch

    on_loop(story)


def test_what_cannot_be_is_one_sentence(tmp_path):
    async def story():
        async with served(tmp_path) as (_, command):
            for words, code, text in [
                (["list", "--state", "Nope"], 2, "there is no state 'Nope'"),
                (["list", "--pattern", "("], 1, "(: INVALID_REGULAR_EXPRESSION"),
                (["describe", "x"], 1, "x: TRANSACTIONAL_ID_NOT_FOUND"),
                (["abort", "x"], 1, "x: TRANSACTIONAL_ID_NOT_FOUND"),
                (["abort"], 2, "abort takes a transactional id"),
                (["abort", "x", "--topic", "t"], 2, "abort takes a transactional id"),
                (["abort", "--topic", "t"], 2, "--topic needs --start-offset"),
                (
                    ["abort", "--topic", "u", "--start-offset", "0"],
                    1,
                    "u-0: UNKNOWN_TOPIC_OR_PARTITION",
                ),
            ]:
                done = await command(*words)
                assert (done.code, done.output) == (code, "")
                assert done.errors.startswith(f"lakelog: {text}")

    on_loop(story)
