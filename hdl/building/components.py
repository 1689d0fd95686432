"""What can be built by name, apart from whole boards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Fragment
from amaranth.lib import wiring

from ..accelerator.accelerator import Accelerator
from ..accelerator.barrier import Barrier
from ..accelerator.counters import Counters
from ..accelerator.doorbell import Doorbell
from ..accelerator.flag_writer import FlagWriter
from ..accelerator.instruction_queue import InstructionQueue
from ..accelerator.operation_table import OperationTable
from ..accelerator.read_out import ReadOut
from ..accelerator.request_issuer import RequestIssuer
from ..accelerator.wave_controller import WaveController
from ..accelerator.wave_table import WaveTable
from ..accelerator.write_back import WriteBack
from ..accelerator.write_tracker import WriteTracker
from ..arithmetic.reducer import Reducer
from ..config import SwitchConfig, unknown_name
from ..emulated_memory import EmulatedMemory
from ..emulated_rank import EmulatedRank
from ..registers import Axi4LiteBridge
from ..switch import Switch
from ..system import System
from ..transport import channels
from ..transport.core_stub import CoreStub
from ..transport.endpoint import Endpoint
from ..transport.link import Link
from ..transport.port import Port
from ..transport.read_engine import ReadEngine
from ..transport.receiver import Receiver
from ..transport.transmitter import Transmitter
from ..transport.write_engine import WriteEngine
from .errors import BuildError

__all__ = ["COMPONENTS", "NamedComponent", "component"]

#: Blocks that belong to one rank or port are built for this one.
FIRST = 0


@dataclass(frozen=True)
class NamedComponent:
    """A component that is built by name.

    Parameters
    ----------
    kind
        Its class.
    create
        Makes it for a configuration.
    """

    kind: type
    create: Callable[[SwitchConfig], wiring.Component]

    @property
    def summary(self) -> str:
        """One line: the first of its docstring."""
        return inspect.getdoc(self.kind).partition("\n")[0]


def _plain(*kinds: type) -> dict[str, NamedComponent]:
    """Components that take the configuration alone; named by their classes."""
    return {_name(kind): NamedComponent(kind, kind) for kind in kinds}


def _name(kind: type) -> str:
    words = []
    for letter in kind.__name__:
        words.append(f"-{letter.lower()}" if letter.isupper() else letter)
    return "".join(words).lstrip("-")


def _data_delay(config: SwitchConfig) -> int:
    """The accelerator's `data_delay`."""
    accelerator = Accelerator(config)
    Fragment.get(accelerator, platform=None)  # else Amaranth warns that nobody uses it
    return accelerator.data_delay


COMPONENTS: dict[str, NamedComponent] = {
    **_plain(System, Switch),
    "endpoint": NamedComponent(Endpoint, lambda config: Endpoint(config, rank=FIRST)),
    **_plain(Reducer, Link, Port, CoreStub),
    "receiver": NamedComponent(
        Receiver, lambda config: Receiver(config, channels.endpoint_channels(config))
    ),
    "transmitter": NamedComponent(
        Transmitter,
        lambda config: Transmitter(
            config, channels.endpoint_sources(config), channels.credits_to_switch(config)
        ),
    ),
    "read-engine": NamedComponent(ReadEngine, lambda config: ReadEngine(config, source=FIRST)),
    "write-engine": NamedComponent(WriteEngine, lambda config: WriteEngine(config, source=FIRST)),
    **_plain(Accelerator, Barrier),
    "doorbell": NamedComponent(Doorbell, lambda config: Doorbell(config, port=FIRST)),
    **_plain(InstructionQueue, OperationTable, WaveController),
    "request-issuer": NamedComponent(
        RequestIssuer, lambda config: RequestIssuer(config, port=FIRST)
    ),
    **_plain(WaveTable, ReadOut),
    "write-back": NamedComponent(
        WriteBack, lambda config: WriteBack(config, port=FIRST, data_delay=_data_delay(config))
    ),
    **_plain(WriteTracker, FlagWriter, Counters),
    "axi4-lite-bridge": NamedComponent(Axi4LiteBridge, lambda config: Axi4LiteBridge()),
    "emulated-rank": NamedComponent(EmulatedRank, lambda config: EmulatedRank(config, rank=FIRST)),
    **_plain(EmulatedMemory),
}


def component(name: str) -> NamedComponent:
    """The component called `name`.

    Raises
    ------
    BuildError
        There is none.
    """
    if name not in COMPONENTS:
        raise BuildError(unknown_name("top", name, COMPONENTS))
    return COMPONENTS[name]
