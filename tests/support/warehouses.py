"""Further warehouses beside one, whose disks are taken away and come back."""

from pathlib import Path
from typing import Final

from lakehouse import further

AWAY: Final = ".away"


class Further:
    """A warehouse at ``place`` with a further one for each name."""

    def __init__(self, place: Path, *names: str, warehouse: Path | None = None) -> None:
        self._place = place
        self.warehouse = str(place / "tables" if warehouse is None else warehouse)
        self.roots = {name: place / f"disk-{name}" for name in names}
        Path(self.warehouse, further.DIRECTORY).mkdir(parents=True)
        for name, root in self.roots.items():
            root.mkdir()
            (root / further.MARK).write_text(f"the id of {name}\n")
            Path(further.id_of(self.warehouse, name)).write_text(f"the id of {name}\n")
            Path(further.link_of(self.warehouse, name)).symlink_to(root)

    def unmount(self, name: str, there: str = "an empty place") -> None:
        """Have nothing in the place of its disk, or an empty place, or another."""
        unmount(self.roots[name], there)

    def mount(self, name: str) -> None:
        """Have it back."""
        mount(self.roots[name])


def unmount(root: Path, there: str = "an empty place") -> None:
    """The same of any directory."""
    root.rename(root.with_name(root.name + AWAY))
    if there != "nothing":
        root.mkdir()
    if there == "another":
        (root / further.MARK).write_text("another id\n")


def mount(root: Path) -> None:
    """Have it back; nothing may have been written where it was."""
    if root.exists():
        (root / further.MARK).unlink(missing_ok=True)
        root.rmdir()
    root.with_name(root.name + AWAY).rename(root)
