"""Runs a judge in a process of its own, which a fault may hang or break."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BREAKS", "HANGS", "JudgeError", "Verdict", "forked"]

#: What a verdict names where a judge did not come to an end, or where what it runs broke.
HANGS, BREAKS = "no end", "an error"


class JudgeError(RuntimeError):
    """A judge has no verdict, or none that counts; the message names its log."""


@dataclass(frozen=True)
class Verdict:
    """What a judge says of one fault.

    Parameters
    ----------
    caught
        It noticed.
    by
        The test that did, or how the run ended.
    seconds
        Of processor time, so that a busy machine changes nothing.
    """

    caught: bool
    by: str
    seconds: float


def forked(judge: Callable[[], str], *, seconds: int, log: Path) -> Verdict:
    """What `judge` says: the test that failed, or nothing.

    It runs in a copy of this process, for at most `seconds` of processor time in each process that
    it starts; what it prints goes to `log`. Who does not come to an end has noticed the fault.

    Raises
    ------
    JudgeError
        The judge itself failed, or somebody else has ended it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _judge(judge, seconds, log, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _pid, status, usage = os.wait4(child, 0)
    used = round(usage.ru_utime + usage.ru_stime, 2)
    if said:
        by = json.loads(said)
        return Verdict(bool(by), by, used)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if ended != signal.SIGXCPU:
        how = f"was ended by signal {ended}" if ended else "failed"
        raise JudgeError(f"a judge {how}: see {log}")
    return Verdict(True, HANGS, used)


def _judge(judge: Callable[[], str], seconds: int, log: Path, writing: int):
    """The copy's part; does not return."""
    code = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        _limit(seconds)
        said = judge()
        sys.stdout.flush()
        os.write(writing, json.dumps(said).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _limit(seconds: int):
    """Of processor time from now on; programs that are started have as much each."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(seconds + before.ru_utime + before.ru_stime) + 1
    _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
