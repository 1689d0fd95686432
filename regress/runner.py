"""Runs items side by side, each once: what ended well and has not changed is not run again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from hdl.building.cache import digest

from .items import ROOT, Item
from .tools import tools

__all__ = ["ITEMS", "LEFT", "PASSED", "Status", "known", "run_all", "state", "states"]

#: How an item ended: well; not; or it was not started.
PASSED, FAILED, LEFT = "passed", "failed", "left"
STATUS, LOG = "status.json", "log.txt"
#: State of an item whose sources changed while it ran: equal to none.
CHANGED = "changed"
#: Folder of all items' folders, in a regression's.
ITEMS = "items"
#: What every result depends on.
SETTINGS = ("pyproject.toml", "constraints.txt")


@dataclass(frozen=True)
class Status:
    """What became of an item.

    Parameters
    ----------
    result
        ``passed``, ``failed`` or ``left``: there was no time for it.
    kept
        It ran in an earlier regression of the same sources.
    """

    name: str
    part: str
    result: str
    code: int
    seconds: float
    command: str
    log: str
    kept: bool = False


def states(items: Iterable[Item]) -> dict[tuple[str, ...], str]:
    """The state of every set of sources that one of `items` has, with today's tools."""
    sets = {item.sources for item in items}
    texts = {name: state((name,)) for name in {name for names in sets for name in names}}
    versions = json.dumps(tools(), sort_keys=True)
    return {names: digest([versions, *(texts[name] for name in names)]) for names in sets}


def state(sources: tuple[str, ...]) -> str:
    """A hash of all files in `sources`, folders and files, and of what every result depends on."""
    files = []
    for name in (*sources, *SETTINGS):
        path = ROOT / name
        files += sorted(path.rglob("*")) if path.is_dir() else [path]
    texts = [
        f"{path.relative_to(ROOT)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return digest(texts)


def run_all(
    items: Sequence[Item],
    folder: Path,
    *,
    jobs: int,
    seconds: float | None = None,
    say: Callable[[str], None] = print,
) -> list[Status]:
    """Run `items`, `jobs` at a time; how each ended, in their order.

    Parameters
    ----------
    folder
        Each item has a folder of its own in it.
    seconds
        Behind that nothing more is started; None is no limit.
    """
    now_of = states(items)
    began = time.monotonic()
    lock, done = threading.Lock(), 0

    def one(item: Item) -> Status:
        nonlocal done
        late = seconds is not None and time.monotonic() - began > seconds
        now = now_of[item.sources]
        status = _kept(item, folder, now)
        if not late and (status is None or status.result != PASSED):
            status = _run(item, folder / item.name, now)
        status = status or _left(item)
        with lock:
            done += 1
            if status.result != LEFT:
                before = " (before)" if status.kept else f", {status.seconds:.0f} s"
                say(f"[{done}/{len(items)}] {item.name}: {status.result}{before}")
        return status

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, items))


def known(items: Sequence[Item], folder: Path) -> list[Status]:
    """How `items` ended in regressions of the same sources; nothing is run."""
    now_of = states(items)
    return [_kept(item, folder, now_of[item.sources]) or _left(item) for item in items]


def _kept(item: Item, folder: Path, now: str) -> Status | None:
    """How it ended, if its sources were the same; None otherwise."""
    path = folder / item.name / STATUS
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text())
    except json.JSONDecodeError:  # somebody else's, or cut off
        return None
    if kept["state"] != now or kept["status"]["command"] != _shown(item):
        return None
    return Status(**{**kept["status"], "kept": True})


def _left(item: Item) -> Status:
    return Status(item.name, item.part, LEFT, 0, 0.0, _shown(item), "")


def _shown(item: Item) -> str:
    return " ".join(item.command)


def _run(item: Item, folder: Path, now: str) -> Status:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [word.replace("{folder}", str(folder.resolve())) for word in item.command]
    began = time.monotonic()
    with (folder / LOG).open("w") as log:
        code = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
    result = PASSED if code in item.fine else FAILED
    seconds = round(time.monotonic() - began, 1)
    status = Status(item.name, item.part, result, code, seconds, _shown(item), str(folder / LOG))
    # Of sources that changed meanwhile nobody knows what it ran on.
    if states([item])[item.sources] != now:
        now = CHANGED
    text = json.dumps({"state": now, "status": asdict(status)}, indent=1)
    (folder / f"{STATUS}.new").write_text(text)
    (folder / f"{STATUS}.new").replace(folder / STATUS)
    return status
