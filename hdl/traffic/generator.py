"""Ordinary traffic of an emulated rank: reads and writes at other ranks, each answer checked."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import Beat, PacketSource
from .checker import TrafficChecker
from .requester import TrafficRequester
from .sequence import TrafficSequence
from .settings import traffic_settings, traffic_totals

__all__ = ["TrafficGenerator"]


class TrafficGenerator(wiring.Component):
    """Makes a number of requests to other ranks, and checks, times and counts their answers.

    What it writes tells address, writer and owner of each word apart (`pattern_word`), and what it
    reads must be what it would have written there. So neither data nor answers of somebody else
    can pass.

    Parameters
    ----------
    rank
        This rank's number.

    Members
    -------
    go : start, also while it runs: what is outstanding is still awaited, and totals begin anew
    now : cycles since reset
    done : every request is made and answered
    requests, writes_out : packets to the endpoint
    read_data, write_responses : answers from the endpoint, taken at once
    up : the rank's link is UP; where contexts outlive failures

    and one a setting (`traffic_settings`), which stays while it runs, and a total
    (`traffic_totals`).

    Ordering and stalls
    -------------------
    Requests go in order, of both kinds. One goes when an entry of ``traffic_requests`` is free, in
    which its answer finds it; answers come in any order.
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        beats = stream.Signature(Beat(config))
        super().__init__(
            {value.name: In(value.width) for value in traffic_settings(config)}
            | {value.name: Out(value.width) for value in traffic_totals(config)}
            | {
                "go": In(1),
                "now": In(32),
                "done": Out(1, init=1),
                "requests": Out(PacketSource(config)),
                "writes_out": Out(PacketSource(config)),
                "read_data": In(beats),
                "write_responses": In(beats),
            }
            | ({"up": In(1, init=1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        config, rank = self._config, self._rank
        m.submodules.sequence = sequence = TrafficSequence(config, rank=rank)
        m.submodules.requester = requester = TrafficRequester(config, rank=rank)
        m.submodules.checker = checker = TrafficChecker(config, rank=rank)
        for value in traffic_settings(config):
            m.d.comb += getattr(sequence, value.name).eq(getattr(self, value.name))
        for value in traffic_totals(config):
            m.d.comb += getattr(self, value.name).eq(getattr(checker, value.name))
        connect(m, requester.requests, flipped(self.requests))
        connect(m, requester.writes, flipped(self.writes_out))
        connect(m, flipped(self.read_data), checker.read_data)
        connect(m, flipped(self.write_responses), checker.write_responses)
        size = Signal(range(config.payload_bytes + 1))
        flits = Signal(range(config.payload_flits + 1))
        m.d.comb += [
            size.eq(Mux(self.bytes > config.payload_bytes, config.payload_bytes, self.bytes)),
            flits.eq((size + config.flit_bytes - 1) >> config.flit_address_bits),
            sequence.go.eq(self.go),
            sequence.taken.eq(requester.taken),
            requester.choice.eq(sequence.choice),
            requester.goes.eq(sequence.more & checker.room),
            requester.tag.eq(checker.tag),
            requester.rate.eq(self.rate),
            checker.go.eq(self.go),
            checker.now.eq(self.now),
            checker.taken.eq(requester.taken),
            checker.choice.eq(sequence.choice),
        ]
        if config.recovers:
            m.d.comb += [
                checker.up.eq(self.up),
                checker.timeout.eq(self.timeout),
                requester.generation.eq(checker.generation),
            ]
        for part in (requester, checker):
            m.d.comb += [part.size.eq(size), part.flits.eq(flits), part.seed.eq(self.seed)]
        with m.If(self.go):
            m.d.sync += self.done.eq(0)
        with m.Elif(~sequence.more & checker.idle & ~requester.taken):
            m.d.sync += self.done.eq(1)
        return m
