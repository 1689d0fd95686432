"""Parts of docs/host.md: a measured bench, and a session of the host tool."""

from __future__ import annotations

import json

from scripts.measured import DATA, size, table
from sim.cli.units import duration

__all__ = ["BENCH_FILE", "SESSION_FILE", "TABLES"]

#: What `scripts.host_example` writes.
BENCH_FILE, SESSION_FILE = DATA / "board-bench.json", DATA / "host-session.txt"


def board_bench() -> str:
    """Latency and bandwidth by size."""
    if not BENCH_FILE.exists():
        return ""
    body = []
    for row in json.loads(BENCH_FILE.read_text())["rows"]:
        simulated = row["simulated"]["cycles"]
        body.append(
            [
                f"`{row['dtype']}`",
                size(row["bytes"]),
                f"{row['cycles']['arrive_to_flag']:,}",
                f"{simulated['arrive_to_flag']:,}",
                duration(row["ns"]["arrive_to_flag"]),
                f"{row['cycles']['data']:,}",
                f"{simulated['data']:,}",
                f"{row['algbw_GBps']:.4f}",
                f"{row['utilization']:.4f}",
                f"{row['bound']:.4f}",
            ]
        )
    header = (
        "Format,bytes a rank,arrival to flag,simulator,time,data,simulator,GB/s a rank,utilization,"
        "bound"
    )
    return table(header.split(","), body)


def host_session() -> str:
    """Commands and what they print."""
    if not SESSION_FILE.exists():
        return ""
    return f"```\n{SESSION_FILE.read_text().rstrip()}\n```"


TABLES = {"board_bench": board_bench, "host_session": host_session}
