"""A public client of Confluent's REST Proxy, asked line by line.

A line is a JSON list, the name of a method and its arguments by name; the answer is a
line as well: what came, or the words of the exception as ``{"error": ...}``.
"""

import json
import sys
from typing import Any

from kafka_mcp.api.api_client_kafka import KafkaApi  # type: ignore[import-not-found]


def main() -> None:
    """Ask the plane at the address that is the only argument until the input ends."""
    api = KafkaApi(sys.argv[1])
    names = [name for name in vars(KafkaApi) if not name.startswith("_")]
    print(json.dumps(names), flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(_asked(api, name, arguments)), flush=True)


def _asked(api: Any, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return getattr(api, name)(**arguments)
    except Exception as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main()
