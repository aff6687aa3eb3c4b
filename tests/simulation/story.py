"""One run: clients, faults, an end in peace, and the judge's last look.

``play(seed)`` is all of it. The seed chooses who comes, what goes wrong and when; then
everything is mended, the clients finish what they began, and each record is read again:
after a kill, after a power cut, out of segments and out of tables.
"""

import asyncio
import gc
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.actors import (
    Admin,
    Committer,
    IdempotentProducer,
    Impatient,
    Vandal,
    look_at_offset,
)
from tests.simulation.clients import Client, Consumer, PlainProducer, Town
from tests.simulation.groups import GroupModel
from tests.simulation.house import House
from tests.simulation.logs import kept_logs
from tests.simulation.loop import SimLoop
from tests.simulation.members import Member
from tests.simulation.model import Model, TopicModel, Violation
from tests.simulation.network import Disconnected, Network
from tests.simulation.transactional import (
    CommittedReader,
    RelaxedProducer,
    TransactionalProducer,
)
from tests.simulation.world import SECOND_US, Life, World

FAULTS = (
    "kill", "power", "stop", "ambush", "ambush_seal", "cuts", "failing_write",
    "failing_sync", "full", "slow", "locked", "slow_network",
)  # fmt: skip
TRANSACTIONS, MEMBERS = "transactions", "members"
"""Each is drawn by a chance of its own."""
CLIENTS = ("plain", "idempotent", "committer", "impatient", "vandal", "admin")
RELAXED = ("relaxed",)
"""Producers of transactions alone, of a broker with ``wal.sync=interval``."""
AMBUSHES = (
    "wal.seal", "wal.checkpoint", "wal.before_write", "wal.after_write",
    "wal.after_sync", "wal.before_done", "catalog.before_commit",
    "catalog.after_commit", "release.after_sync", "release.noted", "release.after",
    "carry.begun", "carry.sealed", "carry.listed", "carry.moved",
)  # fmt: skip
"""Named points behind which the broker is killed, or loses power, at once or soon."""
PEACE_S = 120
"""Virtual seconds in which clients must come to an end once nothing is wrong."""


@dataclass
class Outcome:
    """What a run came to."""

    seed: int
    violation: str | None
    trace: list[str]
    trace_hash: str
    steps: int
    acknowledged: int
    read: int
    lives: int
    faults: list[str] = field(default_factory=list)


def play(
    seed: int,
    *,
    faults: Iterable[str] | None = None,
    clients: Iterable[str] | None = None,
    seconds: float = 6.0,
    in_order: bool = True,
) -> Outcome:
    """Run a seed; ``faults`` and ``clients`` instead of those that it would choose."""
    path = Path(tempfile.mkdtemp(prefix="sim-", dir=_memory()))
    collecting = gc.isenabled()
    gc.disable()  # whether memory is free must not depend on when garbage is collected
    try:
        with kept_logs() as logs:
            story = _Story(seed, path, faults, clients, seconds, logs)
            story.town.in_order = in_order
            return story.tell()
    finally:
        if collecting:
            gc.enable()
        shutil.rmtree(path, ignore_errors=True)


def _memory() -> str | None:
    """A directory in memory if there is one: nobody needs the catalog afterwards."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _Story:
    def __init__(
        self,
        seed: int,
        path: Path,
        faults: Iterable[str] | None,
        clients: Iterable[str] | None,
        seconds: float,
        logs: list,
    ) -> None:
        chance = random.Random(f"story {seed}")
        self.seed, self.logs, self.chance = seed, logs, chance
        self.until_us = int(seconds * SECOND_US)
        self.world = World(seed)
        self.network = Network(self.world)
        self.model = Model()
        self.town = Town(self.world, self.network, self.model)
        self.house = House(self.world, self.network, path)
        self.faults = _chosen(chance, FAULTS) if faults is None else list(faults)
        who = _chosen(chance, CLIENTS) if clients is None else list(clients)
        self.of_transactions = random.Random(f"transactions {seed}")
        self.of_members = random.Random(f"members {seed}")
        if clients is None and self.of_transactions.random() < 0.5:
            who.append(TRANSACTIONS)
        if clients is None and self.of_members.random() < 0.4:
            who.append(MEMBERS)
        self.compacts_us = chance.choice((200_000, 900_000, 5_000_000))
        self.violation: str | None = None
        self.loop = SimLoop(self.world, Life(0), "clients", self._told)
        self.clients = self._people(who)
        if who == list(RELAXED):
            self.house.sync = "interval"
        self.tasks: list[asyncio.Task] = []

    def _told(self, what: str) -> None:
        self.violation = self.violation or what

    # the whole

    def tell(self) -> Outcome:
        with self.house.watching():
            try:
                self._live()
                self._end_in_peace()
                self._look_again()
            except Violation as error:
                self._told(str(error))
            except AssertionError:
                self._told(traceback.format_exc())
            finally:
                self._clear()
        if self.violation:
            self.world.tell(f"VIOLATION {self.violation}")
        world = self.world
        return Outcome(
            self.seed, self.violation, world.trace, world.trace_hash(), world.steps,
            self.model.acknowledged, self.model.read, self.house.lives, self.faults,
        )  # fmt: skip

    def _live(self) -> None:
        self.house.start()
        self._until(lambda: self.house.state == "serving", 5)
        self._do(self._create_topics())
        for client in self.clients:
            self.tasks.append(self.loop.create_task(self._safe(client.run())))
        self._compact_again()
        for kind in self.faults:
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                at = self.chance.randrange(self.until_us)
                self.world.at(at, lambda kind=kind: self._go_wrong(kind))
        self.world.run(lambda: self.violation is not None, self.until_us)
        self._check()

    def _end_in_peace(self) -> None:
        """Nothing goes wrong any more; everybody must come to an end."""
        self.world.tell("peace")
        self.until_us = 0
        self._heal()
        if self.house.faults.failed or self.house.state not in ("serving", "off"):
            self._quiesce()
            if self.house.state == "serving":
                self.house.kill()
        self._up()
        self.town.finishing = True
        self._until(lambda: all(task.done() for task in self.tasks), PEACE_S)

    def _look_again(self) -> None:
        """Everything, from a running broker, after a kill, and after a power cut."""
        self._do(self._read_everything())
        for end in (self.house.kill, self._cut_power):
            end()
            self._up()
            self._do(self._read_everything())
        for _ in range(3):  # the rest goes to the tables, and segments go
            self.house.compact(everything=True)
            self._pass(2)
        self._do(self._read_everything())

    # pieces of it

    def _people(self, who: list[str]) -> list[Client]:
        town = self.town
        topics = [
            self.model.topic(f"topic-{i}", self.chance.choice((1, 2, 4)))
            for i in range(self.chance.choice((1, 2)))
        ]
        self.topics = topics
        if who == list(RELAXED):
            return self._relaxed()
        people: list[Client] = [Consumer(town, f"consumer-{i}") for i in range(2)]
        people.append(PlainProducer(town, "producer"))
        kinds: dict[str, Callable[[str], Client]] = {
            "plain": lambda name: PlainProducer(town, name),
            "committer": lambda name: Committer(town, name),
            "impatient": lambda name: Impatient(town, name),
            "vandal": lambda name: Vandal(town, name),
            "admin": lambda name: Admin(town, name),
            "idempotent": lambda name: IdempotentProducer(
                town, name, self._place(topics)
            ),
        }
        for kind in who:
            if kind == TRANSACTIONS:
                people += self._transacting(len(people))
                continue
            if kind == MEMBERS:
                people += self._members(len(people))
                continue
            count = self.chance.choice((1, 1, 2, 3))
            first = len(people)
            people += [kinds[kind](f"{kind}-{first + i}") for i in range(count)]
        return people

    def _transacting(self, first: int) -> list[Client]:
        """Two instances of one id or of two, of either version, and who reads."""
        chance, town = self.of_transactions, self.town
        shares = chance.random() < 0.5
        version = chance.choice((1, 2))
        people: list[Client] = [
            TransactionalProducer(
                town, f"instance-{first + i}", f"id-{first + i * (not shares)}", version
            )
            for i in range(2)
        ]
        return [*people, CommittedReader(town, f"reader-{first}")]

    def _members(self, first: int) -> list[Client]:
        """A group, of two to four."""
        group = GroupModel(f"group-of-{first}")
        count = self.of_members.choice((2, 3, 4))
        return [Member(self.town, f"member-{first + i}", group) for i in range(count)]

    def _relaxed(self) -> list[Client]:
        """Nobody who reads what a power cut may take."""
        return [
            RelaxedProducer(self.town, f"relaxed-{i}", f"id-{i}", version)
            for i, version in enumerate((1, 2, 1, 2))
        ]

    def _place(self, topics: list[TopicModel]) -> tuple[TopicModel, int]:
        topic = self.chance.choice(topics)
        return topic, self.chance.randrange(len(topic.partitions))

    async def _create_topics(self) -> None:
        admin = Admin(self.town, "founder")
        for topic in self.topics:
            await admin.create(topic.name, len(topic.partitions))
        self.town.topics = self.topics
        admin.disconnect()

    async def _read_everything(self) -> None:
        """Of both levels, if there are transactions; and the offsets of these."""
        readers = [Consumer(self.town, "auditor")]
        if self.model.transactions:
            readers.append(CommittedReader(self.town, "auditor of commits"))
        found = await self._known_topics(readers[0])
        self.model.saw_topics(found)
        for reader in readers:
            reader.in_peace = True
            for topic in self.model.topics.values():
                if topic.name in found and not topic.deleted:
                    for index in range(found[topic.name]):
                        await reader.read_all(topic, index)
        for transaction in self.model.transactions:
            transaction.acknowledge_offsets()
        for group, topic_name, index in self.model.offsets:
            await look_at_offset(readers[0], group, topic_name, index)
        for reader in readers:
            reader.disconnect()

    async def _known_topics(self, client: Client) -> dict[str, int]:
        from broker.protocol.messages.metadata import MetadataRequest

        answer = await client.ask(MetadataRequest(None, False), 9)
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    async def _safe(self, work) -> None:
        try:
            await work
        except (Violation, Disconnected) as error:
            self._told(str(error))
        except Exception:
            self._told(traceback.format_exc())

    # what goes wrong

    def _go_wrong(self, kind: str) -> None:
        if self.until_us == 0:
            return
        world = self.world
        if kind in ("kill", "power", "stop"):
            self._bring_down(kind)
            return
        world.tell(f"fault: {kind}")
        getattr(self, f"_{kind}")(self.chance.randrange(50_000, 1_500_000))

    def _ambush(self, _: int) -> None:
        kind = self.chance.choice(("kill", "power"))
        self.house.ambush = self.chance.choice(AMBUSHES), lambda: self._go_wrong(kind)

    def _ambush_seal(self, _: int) -> None:
        self.house.ambush = "wal.seal", lambda: self._go_wrong("kill")

    def _cuts(self, _: int) -> None:
        for link in list(self.network.links):
            if self.chance.random() < 0.5:
                link.cut()

    def _failing_write(self, _: int) -> None:
        self.house.faults.failing["pwritev"] = self.chance.randrange(1, 6)

    def _failing_sync(self, _: int) -> None:
        self.house.faults.failing["fdatasync"] = self.chance.randrange(1, 4)

    def _full(self, lasts_us: int) -> None:
        faults = self.house.faults
        faults.full = True
        self.world.at(lasts_us, lambda: setattr(faults, "full", False))
        if self.chance.random() < 0.5:  # somebody makes room and starts it again
            lasts_us += self.chance.randrange(200_000)
            self.world.at(lasts_us, lambda: self._go_wrong("kill"))

    def _slow(self, lasts_us: int) -> None:
        faults = self.house.faults
        faults.slow_us = self.chance.choice((5_000, 50_000, 400_000))
        self.world.at(lasts_us, lambda: setattr(faults, "slow_us", 0))

    def _locked(self, lasts_us: int) -> None:
        self.house.catalog_locked_until_us = self.world.now_us + 2 * lasts_us

    def _slow_network(self, lasts_us: int) -> None:
        self.network.slow_us = 200_000
        self.world.at(lasts_us, lambda: setattr(self.network, "slow_us", 2_000))

    def _bring_down(self, kind: str) -> None:
        house = self.house
        if house.state == "off":
            return
        if kind == "stop" and house.state == "serving":
            house.stop()
        elif kind == "power":
            self._cut_power()
        else:
            house.kill()
        self.world.at(self.chance.randrange(10_000, 900_000), self._start_again)

    def _cut_power(self) -> None:
        self.town.cuts += 1
        if self.house.cut_power():
            self.model.forgive_refusals()

    def _start_again(self) -> None:
        """As a supervisor would; one that does not come to its end is killed."""
        if self.house.state == "stopping":
            self.house.kill()
        if self.house.state == "off" and self.until_us:
            self.house.start()
            self._watch_life(self.house.lives)

    def _watch_life(self, life: int) -> None:
        """A broker that cannot start, or write, is started again."""
        house = self.house
        if house.lives != life or not self.until_us:
            return
        broken = house.state == "serving" and house.faults.failed
        if house.state == "failed" or broken:
            house.kill()
            self.world.at(200_000, self._start_again)
        else:
            self.world.at(500_000, lambda: self._watch_life(life))

    def _compact_again(self) -> None:
        if self.until_us:
            self.house.compact()
            pause_us = self.chance.randrange(self.compacts_us // 9, self.compacts_us)
            self.world.at(pause_us, self._compact_again)

    # steps

    def _heal(self) -> None:
        self.house.faults.heal()
        self.house.catalog_locked_until_us = 0
        self.house.ambush = None
        self.network.slow_us = 2_000

    def _quiesce(self) -> None:
        states = ("serving", "off", "failed")
        self._until(lambda: self.house.state in states, 40)
        if self.house.state == "failed":
            self.house.kill()

    def _up(self) -> None:
        self._quiesce()
        if self.house.state == "off":
            self.house.start()
        self._until(lambda: self.house.state == "serving", 20)

    def _pass(self, seconds: float) -> None:
        self.world.run(
            lambda: self.violation is not None,
            self.world.now_us + int(seconds * SECOND_US),
        )
        self._check()

    def _do(self, work) -> None:
        task = self.loop.create_task(self._safe(work))
        self._until(task.done, PEACE_S)

    def _until(self, done: Callable[[], bool], seconds: float) -> None:
        """Go on until it is so; a violation if it is not in time."""
        ready = self.world.run(
            lambda: self.violation is not None or done(),
            self.world.now_us + int(seconds * SECOND_US),
        )
        self._check()
        if not ready:
            raise Violation(f"after {seconds} s of peace it does not go on")

    def _check(self) -> None:
        if self.house.errors:
            self._told(self.house.errors[0])
        for entry in self.logs:
            if "trace" in entry:
                self._told(f"logged: {entry['event']}: {entry['trace']}")
        if self.violation:
            raise Violation(self.violation)

    def _clear(self) -> None:
        if self.house.state != "off":
            self.house.kill()
        self.loop.discard()


def _chosen(chance: random.Random, kinds: tuple[str, ...]) -> list[str]:
    """About half of them: what never happens together is found as well."""
    return [kind for kind in kinds if chance.random() < 0.5] or [chance.choice(kinds)]
