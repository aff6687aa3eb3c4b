"""JSON records of about 165 bytes with changing fields, the same at each call."""

import json
import random
from pathlib import Path

EVENTS = ("view", "click", "purchase", "search", "login", "scroll")
COUNTRIES = ("DE", "US", "FR", "GB", "PL", "IN", "BR")


def write_json_lines(file: Path, count: int) -> Path:
    """``count`` lines in ``file``, unless they are there already."""
    if file.exists():
        return file
    chance, at = random.Random(7), 1_790_000_000_000
    with file.open("w") as out:
        for _ in range(count):
            at += chance.randrange(1, 9)
            out.write(json.dumps(_record(chance, at), separators=(",", ":")) + "\n")
    return file


def _record(chance: random.Random, at: int) -> dict[str, object]:
    return {
        "event_id": f"{chance.getrandbits(64):016x}",
        "ts": at,
        "user_id": chance.randrange(2_000_000),
        "event": chance.choice(EVENTS),
        "country": chance.choice(COUNTRIES),
        "url": f"/p/{chance.randrange(50_000)}/{chance.choice('abcd')}",
        "price": round(chance.random() * 300, 2),
        "session": f"{chance.getrandbits(32):08x}",
        "ok": chance.random() < 0.97,
    }
