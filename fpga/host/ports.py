"""Serial ports by name, with an error that helps where one cannot be had."""

from __future__ import annotations

import errno
import os

import serial
from serial.tools import list_ports

from sim.cli.errors import UsageError

__all__ = ["open_serial"]

#: Seconds after which a port that takes no bytes is given up.
WRITE_SECONDS = 5.0


def open_serial(device: str, baud: int) -> serial.Serial:
    """The port, 8 data bits without parity, for this program alone.

    Raises
    ------
    UsageError
        There is none of that name, it is another program's, or it cannot be set up so.
    """
    try:
        return serial.Serial(device, baud, write_timeout=WRITE_SECONDS, exclusive=True)
    except (ValueError, OverflowError):
        raise UsageError(f"baud: must be a rate that the port has, not {baud}") from None
    except serial.SerialException as error:
        raise UsageError(f"port: {_reason(device, error)}, not {device!r}") from None


def _reason(device: str, error: serial.SerialException) -> str:
    if error.errno == errno.ENOENT or not os.path.exists(device):
        return f"must be one that is there ({_found()})"
    if error.errno == errno.EACCES:
        return "must be one that you may use (often a matter of the group dialout)"
    if error.errno in (errno.EBUSY, errno.EAGAIN) or "exclusively lock" in str(error):
        return "must be one that no other program has"
    return f"must be a serial port ({error.strerror or str(error).splitlines()[0]})"


def _found() -> str:
    """Ports that are there, those of USB first."""
    ports = sorted(list_ports.comports(), key=lambda port: (port.vid is None, port.device))
    names = [port.device for port in ports]
    return f"found: {', '.join(names)}" if names else "found none"
