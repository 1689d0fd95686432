"""What can be built by name, apart from whole boards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Fragment
from amaranth.lib import wiring

from ..accelerator.accelerator import Accelerator
from ..accelerator.arithmetic import Arithmetic
from ..accelerator.barrier import Barrier
from ..accelerator.counters import Counters
from ..accelerator.doorbell import Doorbell
from ..accelerator.entry_shares import EntryShares
from ..accelerator.flag_writer import FlagWriter
from ..accelerator.instruction_queue import InstructionQueue
from ..accelerator.late_flags import LateFlags
from ..accelerator.member_posts import MemberPosts
from ..accelerator.operation_table import OperationTable
from ..accelerator.outstanding import Outstanding
from ..accelerator.packet_drop import PacketDrop
from ..accelerator.packet_merge import PacketMerge
from ..accelerator.read_out import ReadOut
from ..accelerator.recovery import Recovery
from ..accelerator.request_issuer import RequestIssuer
from ..accelerator.scale_packer import ScalePacker
from ..accelerator.scale_packets import ScalePackets, scale_write_back_flits
from ..accelerator.trace_buffer import TraceBuffer
from ..accelerator.wave_controller import WaveController
from ..accelerator.wave_table import WaveTable
from ..accelerator.write_back import WriteBack
from ..accelerator.write_tracker import WriteTracker
from ..arithmetic.inq_reducer import InqReducer
from ..arithmetic.multi_reducer import MultiReducer
from ..arithmetic.reducer import Reducer
from ..arithmetic.shared_reducer import SharedReducer
from ..config import SwitchConfig, unknown_name
from ..emulated_memory import EmulatedMemory
from ..emulated_rank import EmulatedRank
from ..registers import Axi4LiteBridge
from ..switch import Switch
from ..system import System
from ..transport import channels
from ..transport.core import Core
from ..transport.core_stub import CoreStub
from ..transport.endpoint import Endpoint
from ..transport.link import Link
from ..transport.link_end import LinkEnd
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


def _require_inq8(config: SwitchConfig, top: str):
    if not config.quantizes:
        raise BuildError(f"formats: must have inq8 for {top}, not {','.join(config.formats)!r}")


def _reducer(config: SwitchConfig) -> Reducer:
    if not config.float_formats:
        formats = ",".join(config.formats)
        raise BuildError(f"formats: must have fp16 or bf16 for reducer, not {formats!r}")
    return Reducer(config)


def _multi_reducer(config: SwitchConfig) -> MultiReducer:
    if not config.sum_formats:
        formats = ",".join(config.formats)
        raise BuildError(f"formats: must have another than inq8 for multi-reducer, not {formats!r}")
    return MultiReducer(config)


def _inq_reducer(config: SwitchConfig) -> InqReducer:
    _require_inq8(config, "inq-reducer")
    return InqReducer.of(config)


def _shared_reducer(config: SwitchConfig) -> SharedReducer:
    if config.inq_reducer != "shared":
        rule = "must be shared for shared-reducer"
        raise BuildError(f"inq_reducer: {rule}, not {config.inq_reducer!r}")
    return SharedReducer.of(config)


def _core(config: SwitchConfig) -> Core:
    if not config.forwards:
        raise BuildError(f"core: must be forward for core, not {config.core!r}")
    return Core(config)


def _accelerator(config: SwitchConfig) -> Accelerator:
    """One to ask for its delays."""
    made = Accelerator(config)
    Fragment.get(made, platform=None)  # else Amaranth warns that nobody uses it
    return made


def _write_back(config: SwitchConfig) -> WriteBack:
    asked = _accelerator(config)
    return WriteBack(config, port=FIRST, data_delay=asked.data_delay, inq_delay=asked.inq_delay)


def _scale_packer(config: SwitchConfig) -> ScalePacker:
    _require_inq8(config, "scale-packer")
    return ScalePacker(config)


def _scale_packets(config: SwitchConfig) -> ScalePackets:
    _require_inq8(config, "scale-packets")
    flits = scale_write_back_flits(config, _accelerator(config).inq_delay)
    return ScalePackets(config, port=FIRST, flits=flits)


def _of_contexts(kind: type, **parameters) -> NamedComponent:
    """A component that switches of several contexts have."""

    def create(config: SwitchConfig):
        if not config.recovers:
            raise BuildError(f"contexts: must be more than 1 for {_name(kind)}, not 1")
        return kind(config, **parameters)

    return NamedComponent(kind, create)


def _trace_buffer(config: SwitchConfig) -> TraceBuffer:
    if not config.trace_records:
        raise BuildError("trace_records: must be more than 0 for trace-buffer, not 0")
    return TraceBuffer(config)


COMPONENTS: dict[str, NamedComponent] = {
    **_plain(System, Switch),
    "endpoint": NamedComponent(Endpoint, lambda config: Endpoint(config, rank=FIRST)),
    "reducer": NamedComponent(Reducer, _reducer),
    "multi-reducer": NamedComponent(MultiReducer, _multi_reducer),
    "inq-reducer": NamedComponent(InqReducer, _inq_reducer),
    "shared-reducer": NamedComponent(SharedReducer, _shared_reducer),
    **_plain(Link, Port, CoreStub),
    "core": NamedComponent(Core, _core),
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
    **_plain(WaveTable, ReadOut, Arithmetic),
    "scale-packer": NamedComponent(ScalePacker, _scale_packer),
    "scale-packets": NamedComponent(ScalePackets, _scale_packets),
    "write-back": NamedComponent(WriteBack, _write_back),
    **_plain(WriteTracker, FlagWriter, Counters),
    "recovery": _of_contexts(Recovery),
    "late-flags": _of_contexts(LateFlags, context=FIRST),
    "member-posts": _of_contexts(MemberPosts),
    "entry-shares": _of_contexts(EntryShares),
    "outstanding": _of_contexts(Outstanding),
    "packet-drop": _of_contexts(PacketDrop),
    "packet-merge": _of_contexts(PacketMerge, count=2),
    "link-end": NamedComponent(LinkEnd, lambda config: LinkEnd()),
    "trace-buffer": NamedComponent(TraceBuffer, _trace_buffer),
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
