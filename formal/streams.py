"""The stream contract, of every stream that a component offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amaranth import Value
from amaranth.lib import stream, wiring

from hdl.accelerator.flag_writer import FlagWriter
from hdl.accelerator.late_flags import LateFlags
from hdl.accelerator.packet_drop import PacketDrop
from hdl.accelerator.packet_merge import PacketMerge
from hdl.accelerator.request_issuer import RequestIssuer
from hdl.accelerator.scale_packets import ScalePackets
from hdl.accelerator.wave_controller import WaveController
from hdl.due_queue import DueQueue
from hdl.interfaces import MessageClass
from hdl.stream import Slice
from hdl.transport.core_stub import CoreStub
from hdl.transport.packet_slice import PacketSlice
from hdl.transport.read_engine import ReadEngine
from hdl.transport.route import Route

from .proof import Fault, Proof
from .sizes import CODES, FORWARDING, SMALL, TENANTS, describe
from .specification import Specification
from .stream_queue import keeps_its_place

__all__ = ["COMPOSED", "PROOFS", "WITHDRAWN", "keeps_contract", "streams"]

#: Streams that components hand on as parts of theirs make them; by class, what is proved instead.
COMPOSED = {
    "Endpoint": "outputs of its `Receiver`",
    "Port": "outputs of its `Receiver`, and of `Route`",
    "Receiver": "outputs of `Queue` and `Depacketizer`; a channel without a queue has a user that "
    "is always ready",
    "Core": "outputs of `CoreOutput`, one each",
    "Accelerator": "outputs of `RequestIssuer`, `WriteBack`, `FlagWriter` and `Doorbell`, or, of "
    "several contexts, of `PacketMerge` and `PacketSlice`",
    "Reducer": "its user is always ready",
    "MultiReducer": "its user is always ready",
    "InqReducer": "its user is always ready",
    "SharedReducer": "its user is always ready",
}
#: Heads of packets that do not wait until they are taken; by class, why.
WITHDRAWN = {
    "ReadEngine": "offered when any flit is there, which may be another packet's",
    "PacketMerge": "whose head is offered is decided anew in each cycle",
    "PacketDrop": "dropped when its operation is over",
    "LateFlags": "not offered while the link is down; of two flags the later one is offered",
}

MEANING = "What is offered and not taken is offered again, with the same payload."


def streams(component: wiring.Component, flow: wiring.Flow) -> Iterator[tuple[str, Any]]:
    """Stream ports of `component` in one direction: names and ports."""
    for name, member in component.signature.members.items():
        yield from _inside(name, member, getattr(component, name), flow)


def _inside(name: str, member: wiring.Member, port, flow: wiring.Flow):
    if not member.is_signature:
        return
    # Of an input, `signature` is seen from the other side.
    plain = member.signature if member.flow is wiring.Out else member.signature.flip()
    if member.dimensions:
        for index, each in enumerate(port):
            one = member.flow(plain).array(*member.dimensions[1:])
            yield from _inside(f"{name}_{index}", one, each, flow)
    elif isinstance(plain, stream.Signature):
        if member.flow is flow:
            yield name, port
    else:
        for inner, its in plain.members.items():
            seen = its if member.flow is wiring.Out else its.flip()
            yield from _inside(f"{name}_{inner}", seen, getattr(port, inner), flow)


def keeps_contract(specification: Specification, name: str, port):
    """Say that what `port` offers stays until it is taken."""
    specification.always(
        f"stream_contract_of_{name}",
        specification.offers(port, name),
        MEANING,
        when=specification.offer_waits(port, name),
    )


class StreamContracts(Specification):
    """Every output stream of a component, while its input streams keep the contract, too.

    Parameters
    ----------
    component
        With streams.
    silent
        Outputs that never offer anything: payload of packets that have none.
    surroundings
        Adds what else is assumed, and lemmas.
    """

    def __init__(
        self,
        component: wiring.Component,
        *,
        silent: tuple[str, ...] = (),
        surroundings: Callable[[StreamContracts], None] = lambda specification: None,
    ):
        super().__init__(component)
        self._silent = silent
        self._surroundings = surroundings

    def specify(self, m):
        for name, port in streams(self.component, wiring.In):
            self.assume(f"stream_contract_of_{name}", self.offers(port, name))
        self._surroundings(self)
        withdraws = type(self.component).__name__ in WITHDRAWN
        for name, port in streams(self.component, wiring.Out):
            if name in self._silent:
                self._is_silent(name, port)
            elif not (withdraws and name.endswith("head")):
                keeps_contract(self, name, port)

    def _is_silent(self, name, port):
        head = getattr(self.component, name.removesuffix("_payload")).head
        self.always(
            f"{name}_is_silent",
            ~port.valid,
            "These packets have no payload.",
            trace=head.valid & head.ready,
        )


def _queues(*paths: str) -> Callable[[StreamContracts], None]:
    """Lemmas of queues inside a component."""

    def surroundings(specification: StreamContracts):
        for path in paths:
            keeps_its_place(specification, path)

    return surroundings


def _entries(specification: StreamContracts):
    """Around a `WaveController`: who takes its waves, and who gives entries back."""
    controller = specification.component
    waits = specification.past(controller.issue_ready & ~controller.issue.valid, name="waits")
    failed = specification.past(controller.failed, name="failed")
    specification.assume("issuers_stay_ready", ~waits | controller.issue_ready)
    # Of an operation that fails, the wave that waits becomes the one that ends it.
    specification.assume("no_operation_fails", controller.failed == failed)
    specification.assume("releases_what_is_held", ~controller.release | (controller.reading != 0))
    specification.lemma("reading_is_bounded", controller.reading <= SMALL.waves)


def _slots(specification: StreamContracts):
    """Around a `FlagWriter`: the operation table, and who takes payload behind its head."""
    flags, inside = specification.component, specification.inside
    looked_up, begun, sent = (inside.signal(name) for name in ("looked_up", "begun", "sent"))
    asked = specification.past(looked_up & ~flags.retire, name="asked")
    answers = {name: getattr(flags, name) for name in ("epoch", "code", "rank")}
    answers |= {f"flag_{rank}": address for rank, address in enumerate(flags.flags)}
    for name, value in answers.items():
        before = specification.past(value, name=name)
        specification.assume(f"{name}_stays", ~asked | (Value.cast(value) == before))
    for rank, port in enumerate(flags.o):
        specification.assume(f"payload_follows_head_{rank}", ~port.payload.ready | begun[rank])
    keeps_its_place(specification, "waiting")
    specification.lemma("looks_up_what_waits", ~looked_up | flags.sending)
    specification.lemma("payload_is_behind_its_head", (sent & ~begun) == 0)


def _late(specification: StreamContracts):
    """Around `LateFlags`: nothing ends while a late flag's word is on its way."""
    late = specification.component
    for rank in range(len(late.waiting)):
        begun = specification.inside.signal(f"begun_{rank}")
        specification.assume(f"nothing_ends_{rank}", ~(begun & late.keep[rank]))


def _proof(name: str, component: str, size: str, make, faults, **options) -> Proof:
    return Proof(
        name=f"streams-of-{name}",
        component=component,
        size=size,
        specify=lambda: StreamContracts(make(), **options),
        depth=2,
        faults=tuple(Fault(*fault) for fault in faults),
    )


PROOFS = [
    _proof(
        "slice", "Slice", "4 bits", lambda: Slice(4),
        [("takes what it has no room for", "advance", lambda advance: advance | 1)],
    ),
    _proof(
        "packet-slice", "PacketSlice", describe(SMALL), lambda: PacketSlice(SMALL),
        [("takes a head too early", "head.advance", lambda advance: advance | 1)],
    ),
    _proof(
        "due-queue", "DueQueue", "depth 2, 4 bits, times of 6 bits",
        lambda: DueQueue(4, depth=2, time_bits=6),
        [("takes what is older for newer", "empty", lambda empty: ~empty)],
    ),
    _proof(
        "request-issuer", "RequestIssuer", describe(SMALL), lambda: RequestIssuer(SMALL, port=0),
        [("a wave is counted twice", "waves.level", lambda level: level + 1)],
        silent=("o_payload",), surroundings=_queues("waves"),
    ),
    _proof(
        "wave-controller", "WaveController", describe(SMALL), lambda: WaveController(SMALL),
        [("an entry is counted twice", "reading", lambda reading: reading + 1)],
        surroundings=_entries,
    ),
    _proof(
        "core-stub", "CoreStub", describe(SMALL), lambda: CoreStub(SMALL),
        [("an answer is counted twice", "reads.level", lambda level: level + 1)],
        silent=("read_data_payload", "write_responses_payload"),
        surroundings=_queues("reads", "writes"),
    ),
    _proof(
        "route-of-writes", "Route", describe(FORWARDING),
        lambda: Route(FORWARDING, message_class=MessageClass.WRITE_DATA),
        [("waits for the other way", "leaves", lambda leaves: ~leaves)],
    ),
    _proof(
        "flag-writer", "FlagWriter", describe(SMALL), lambda: FlagWriter(SMALL),
        [("forgets what was heard", "begun", lambda begun: ~begun)],
        surroundings=_slots,
    ),
    _proof(
        "scale-packets", "ScalePackets", describe(CODES),
        lambda: ScalePackets(CODES, port=0, flits=CODES.scale_flits * 2),
        [("a flit is counted twice", "flits.level", lambda level: level + 1)],
        surroundings=_queues("flits", "waves"),
    ),
    _proof(
        "packet-merge", "PacketMerge", describe(TENANTS), lambda: PacketMerge(TENANTS, count=2),
        [("a packet is counted twice", "order.level", lambda level: level + 1)],
        surroundings=_queues("order"),
    ),
    _proof(
        "packet-drop", "PacketDrop", describe(TENANTS), lambda: PacketDrop(TENANTS),
        [("a packet is counted twice", "fates.level", lambda level: level + 1)],
        surroundings=_queues("fates"),
    ),
    _proof(
        "late-flags", "LateFlags", describe(TENANTS), lambda: LateFlags(TENANTS, context=0),
        [("a word goes before its head", "o__0__payload__valid", lambda valid: ~valid)],
        surroundings=_late,
    ),
    _proof(
        "read-engine", "ReadEngine", describe(SMALL), lambda: ReadEngine(SMALL, source=0),
        [("a flit is counted twice", "data.level", lambda level: level + 1)],
        surroundings=_queues("data"),
    ),
]  # fmt: skip
