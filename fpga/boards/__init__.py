"""The boards that can be built, by name."""

from __future__ import annotations

from .arty import ARTY, ARTY_100, ARTY_ALONE
from .board import Board
from .ecpix5 import ECPIX5_85F
from .ulx3s import ULX3S_85F

__all__ = ["BOARDS", "Board"]

BOARDS: dict[str, Board] = {
    board.name: board for board in (ARTY, ARTY_ALONE, ARTY_100, ULX3S_85F, ECPIX5_85F)
}
