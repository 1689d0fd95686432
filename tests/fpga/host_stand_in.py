"""A board without hardware: the bridge's model behind a pseudo-terminal. Nothing is simulated."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import tty
from collections.abc import Callable

from fpga.host.frames import BURST_BYTES, Identity, SelfTestState
from hdl.config import SwitchConfig
from hdl.registers import addresses
from sim.register_host import register_tables
from tests.fpga.bridge_model import Board, BridgeModel

__all__ = ["StandIn", "identity_of"]

WORD_BYTES = 4


def identity_of(config: SwitchConfig, **changes) -> Identity:
    """What a board of `config` says of itself, some of it changed."""
    fields = dict(
        nonce=0,
        burst_bytes=BURST_BYTES,
        ranks=config.ranks,
        flit_bytes=config.flit_bytes,
        memory_bytes=config.memory_bytes,
        config_digest=int(config.digest[:8], 16),
        version=(0, 1, 0),
        damaged_frames=0,
        framing_errors=0,
        self_test=SelfTestState(built=True, busy=False, passed=True, failed=False, fault=0),
    )
    return Identity(**fields | changes)


def words_of(config: SwitchConfig) -> dict[int, int]:
    """Every register by address, with its reset value."""
    words = {}
    for table, page in register_tables(config).values():
        at = addresses(table, page)
        for register in table:
            for word in range(register.words):
                words[at[register.name] + WORD_BYTES * word] = register.reset >> (32 * word)
    return words


class StandIn:
    """Registers that keep what is written, and memories, behind a terminal; nothing runs.

    Parameters
    ----------
    config
        Its registers and memories.
    identity
        What it says of itself; None: the truth.
    spoil
        What becomes of the bytes of an answer on their way; ``b""`` loses them.
    """

    def __init__(
        self,
        config: SwitchConfig,
        identity: Identity | None = None,
        spoil: Callable[[bytes], bytes] = lambda data: data,
    ):
        self.board = Board(
            words_of(config), [bytearray(config.memory_bytes) for _ in range(config.ranks)]
        )
        told = (identity or identity_of(config)).pack()[4:]  # the nonce is the request's
        self._model = BridgeModel(self.board, BURST_BYTES, told)
        self._spoil = spoil
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.device = os.ttyname(self._slave)
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            readable, _, _ = select.select([self._master, self._woken], [], [])
            if self._woken in readable:
                return
            answer = self._model.feed(os.read(self._master, 4096))
            with contextlib.suppress(BlockingIOError):
                os.write(self._master, self._spoil(answer))

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exception):
        os.close(self._wake)
        self._thread.join()
        for descriptor in (self._woken, self._master, self._slave):
            os.close(descriptor)
