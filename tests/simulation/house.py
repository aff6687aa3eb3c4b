"""The broker under simulation: started, killed, cut off from power, and started again.

The catalog is a real SQLite file, written by the broker's own code on a thread of the
world's. Approximated: what SQLite committed is durable at once (it says so, and is
trusted), what it did not commit is gone with the process.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from broker import failpoints
from broker.assembly import Assembly, Surroundings, assemble, bring_maintenance, listen
from broker.catalog.errors import CatalogError
from broker.runtime.process.loop_timers import LoopTimers
from broker.settings import GroupSettings, LakeSettings, Settings, WalSettings
from broker.storage.directory import DataDirectory
from broker.storage.warehouse import DirectoryRefused
from tests.simulation.disk import Disk, DiskFaults
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network
from tests.simulation.tables import SimTables
from tests.simulation.threads import SimThreads
from tests.simulation.world import Life, World
from tests.support.files import ForgetfulFiles, pieces

SEGMENT_BYTES = 48 << 10


def settings(path: Path, sync: str = "always") -> Settings:
    """Small segments and short times: everything happens often."""
    wal = WalSettings.model_construct(
        **WalSettings().model_dump()
        | {
            "segment_bytes": SEGMENT_BYTES,
            "hot_bytes": 4 * SEGMENT_BYTES,
            "keep_ms": 300,
            "idle_seal_ms": 200,
            "roll_ms": 3_000,
            "spare_segments": 2,
            "free_segments_max": 4,
            "sync": sync,
        }
    )
    return Settings.model_construct(
        **dict(Settings(data_dir=path))
        | {
            "wal": wal,
            "lake": LakeSettings(
                retention_check_ms=1_000, flush_ms=50, flush_max_ms=50
            ),
            "groups": GroupSettings(initial_rebalance_delay_ms=0),
        }
    )


class House:
    """What stays when a broker dies: its disk, its catalog's file, its tables."""

    def __init__(self, world: World, network: Network, path: Path) -> None:
        self.world, self.network, self.path = world, network, path
        self.files = ForgetfulFiles()
        self.faults = DiskFaults()
        self.sync = "always"
        """``wal.sync`` of the lives that follow."""
        self.tables = SimTables(world)
        self.catalog_locked_until_us = 0
        self.ambush: tuple[str, Callable[[], None]] | None = None
        """A named point, and what happens soon after it is passed."""
        self.errors: list[str] = []
        self.lives = 0
        self.loop: SimLoop | None = None
        self.assembly: Assembly | None = None
        self.state = "off"
        self._ends = contextlib.AsyncExitStack()
        self._task: Any = None

    # a life

    def start(self) -> None:
        """Begin to start a broker; ``state`` becomes "serving", or "failed"."""
        assert self.state == "off", self.state
        self.lives += 1
        life = Life(self.lives)
        self.world.tell(f"house: start {life.number}")
        self.faults.failed = False
        self.loop = SimLoop(self.world, life, f"broker {life.number}", self._fault)
        self.state = "starting"
        self._ends = contextlib.AsyncExitStack()
        self._task = self.loop.create_task(self._bring_up(self.loop, life))

    async def _bring_up(self, loop: SimLoop, life: Life) -> None:
        try:
            await self._open(loop, life)
        except (OSError, CatalogError, DirectoryRefused) as error:
            self.world.tell(f"house: cannot start: {type(error).__name__}")
            await self._ends.aclose()
            self.state = "failed"

    async def _open(self, loop: SimLoop, life: Life) -> None:
        disk: Any = Disk(self.world, life, self.files, self.faults)
        directory = DataDirectory.claim(disk, self.path, "the simulation")
        self._ends.callback(directory.close)
        timers = LoopTimers(loop, self.world)
        self._ends.callback(timers.close)
        around = Surroundings(
            loop,
            disk,
            self.world,
            timers,
            lambda _: self.tables,
            SimThreads(self.world, life),
            self.world.chance.randbytes,
        )
        assembly = assemble(settings(self.path, self.sync), around, self._ends)
        self.assembly = assembly
        for damage in assembly.recovery.damage:
            self._fault(f"damage: {damage}")
        bring_maintenance(assembly, self._ends)
        await listen(assembly, "sim", 9092, self._ends)
        assembly.broker.advertised = ("sim", 9092)
        self.network.broker = loop
        self.state = "serving"
        self.world.tell("house: serving")

    def _fault(self, what: str) -> None:
        self.world.tell(f"FAULT {what}")
        self.errors.append(what)

    # its ends

    def kill(self) -> None:
        """The process dies; what it wrote stays, as far as the kernel has it."""
        self._end("killed")
        self.files = self.files.after_kill()

    def cut_power(self) -> bool:
        """The machine stops; whether the disk had failed before."""
        self._end("the power is cut")
        likelihood = self.world.chance.choice((0.0, 0.5, 0.9, 1.0))
        self.files = self.files.after_power_cut(pieces(self.world.chance, likelihood))
        self.tables.lose_power()
        return self.faults.failed

    def stop(self) -> None:
        """Stop in order; ``state`` becomes "off" when that is done."""
        assert self.loop is not None
        self.state = "stopping"
        self.world.tell("house: stop")
        self._task = self.loop.create_task(self._close())

    async def _close(self) -> None:
        await self._ends.aclose()
        self.assembly = None
        self.world.at(0, self._gone)

    def _gone(self) -> None:
        if self.state == "stopping":
            self._end("stopped")
            self.files = self.files.after_kill()

    def _end(self, how: str) -> None:
        self.world.tell(f"house: {how}")
        loop, self.loop = self.loop, None
        assert loop is not None
        self.network.broker = None
        for link in list(self.network.links):
            link.server.lost(None)
        self.world.end(loop.life)
        loop.discard()
        assembly, self.assembly = self.assembly, None
        if assembly is not None:
            assembly.broker.catalog.close()
        self._ends = contextlib.AsyncExitStack()
        self.state = "off"

    # what happens meanwhile

    def compact(self, *, everything: bool = False) -> None:
        """The compactor moves what it finds; not everything each time, and of each
        third topic hardly anything: something is wrong with its table."""
        assembly = self.assembly
        if assembly is None or self.state != "serving":
            return
        for partition in assembly.broker.partitions:
            behind = partition.high_watermark > self.tables.table_end(*partition.key)
            often = 0.7 if everything or partition.number % 3 else 0.02
            if behind and self.world.chance.random() < often:
                self.tables.compact(assembly.broker, partition)

    def watch_failpoints(self, name: str) -> None:
        """Threads wait where they could be killed; a locked catalog refuses."""
        world = self.world
        if self.ambush is not None and self.ambush[0] == name:
            world.tell(f"house: ambush at {name}")
            world.at(world.chance.randrange(0, 40_000), self.ambush[1])
            self.ambush = None
        if world.current is None:
            return
        if name != "catalog.before_commit":
            world.block(lambda: True)
            return
        world.block(None, world.chance.randrange(100, 3_000))
        left_us = self.catalog_locked_until_us - world.now_us
        if left_us > 0:
            world.block(None, left_us)
            world.tell("catalog: locked for too long")
            raise OperationalError("COMMIT", None, Exception("database is locked"))

    @contextlib.contextmanager
    def watching(self) -> Any:
        failpoints.watch(self.watch_failpoints)
        try:
            yield
        finally:
            failpoints.watch(None)
