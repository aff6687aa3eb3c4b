"""What a further warehouse may be called, and where a topic says its name.

Broker, jobs and tables ask the same of it, and some of them know no file: so it stands
here, beside `lakehouse.further`, which finds the warehouses. Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

CONFIG: Final = "lake.warehouse"
"""The topic's configuration that names one; empty: its table lies with the others."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def name_of(configs: Mapping[str, str] | None) -> str:
    """Which further warehouse a topic's configurations name; empty: none."""
    return (configs or {}).get(CONFIG, "")
