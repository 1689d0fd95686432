"""`AxiShare`: two managers at one bus, by beats, with every rule of AXI4 kept."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.transport.axi_share import AxiShare
from tests.lib.axi import AxiChecker
from tests.lib.simulate import SHAPES, pattern, run

CONFIG = SwitchConfig.preset("tiny", payload_bytes=64, core="forward")
MANAGERS = (0, 1)


def offer(dut, index, channel, lengths, willing, log):
    """A manager's address channel: bursts of these lengths, each held until it is taken."""

    async def bench(ctx):
        port = dut.managers[index]
        valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
        ctx.set(getattr(port, f"{channel}size"), 3)
        ctx.set(getattr(port, f"{channel}burst"), 1)
        for number, length in enumerate(lengths):
            while not next(willing):
                await ctx.tick()
            ctx.set(getattr(port, f"{channel}addr"), index << 40 | number << 12)
            ctx.set(getattr(port, f"{channel}len"), length - 1)
            ctx.set(valid, 1)
            while not (await ctx.tick().sample(ready))[2]:
                pass
            ctx.set(valid, 0)
            log.append(length)

    return bench


@pytest.mark.parametrize("channel", ["ar", "aw"])
@pytest.mark.parametrize("lengths", [(8, 1), (8, 2), (1, 1), (3, 8)])
def test_beats_are_shared_equally_while_both_ask(channel, lengths):
    dut = AxiShare(CONFIG)
    beats = [0, 0]
    logs = ([], [])

    async def memory(ctx):
        """Takes an address now and then, and whatever write data there is."""
        ready = getattr(dut.axi, f"{channel}ready")
        willing = pattern("half", 1)
        ctx.set(dut.axi.wready, 1)
        while sum(beats) < 400:
            ctx.set(ready, next(willing))
            await ctx.tick()
            beats[:] = [sum(log) for log in logs]
            assert abs(beats[0] - beats[1]) < 3 * 8 + 1

    def data(index):
        async def bench(ctx):
            """Write data: every beat is a last one, so bursts end as fast as they come."""
            ctx.set(dut.managers[index].wvalid, 1)
            ctx.set(dut.managers[index].wlast, 1)

        return bench

    offers = [
        offer(dut, i, channel, [lengths[i]] * 1000, pattern("always", i), logs[i]) for i in MANAGERS
    ]
    run(dut, memory, background=[*offers, *map(data, MANAGERS)])
    assert min(beats) > 150


@pytest.mark.parametrize("shape", SHAPES)
def test_write_data_follows_its_addresses_and_nothing_changes_before_it_is_taken(shape):
    """Bursts of both managers: the checker sees each rule; each beat belongs to its burst."""
    dut = AxiShare(CONFIG)
    draw = random.Random(shape)
    lengths = [[draw.randint(1, 8) for _ in range(25)] for _ in MANAGERS]
    logs = ([], [])
    checker = AxiChecker(data_bytes=8)
    bursts, beats, due = [], [], sum(map(sum, lengths))

    def data(index):
        async def bench(ctx):
            port = dut.managers[index]
            willing = pattern(shape, f"data {index}")
            for number, length in enumerate(lengths[index]):
                for beat in range(length):
                    while not next(willing):
                        await ctx.tick()
                    ctx.set(port.wdata, index << 32 | number << 8 | beat)
                    ctx.set(port.wlast, beat == length - 1)
                    ctx.set(port.wvalid, 1)
                    while not (await ctx.tick().sample(port.wready))[2]:
                        pass
                    ctx.set(port.wvalid, 0)

        return bench

    names = [f"{channel}{name}" for channel in ("aw", "ar")
             for name in ("id", "addr", "len", "size", "burst", "valid", "ready")]  # fmt: skip
    names += ["wdata", "wstrb", "wlast", "wvalid", "wready", "bid", "bresp", "bvalid", "bready",
              "rid", "rdata", "rresp", "rlast", "rvalid", "rready"]  # fmt: skip

    async def memory(ctx):
        address, data = pattern(shape, "aw"), pattern(shape, "w")
        while len(beats) < due:
            ctx.set(dut.axi.awready, next(address))
            ctx.set(dut.axi.wready, next(data))
            _, _, *values = await ctx.tick().sample(*(getattr(dut.axi, name) for name in names))
            bus = dict(zip(names, values, strict=True))
            checker.cycle(bus)
            if bus["awvalid"] and bus["awready"]:
                bursts.append((bus["awid"], bus["awaddr"] >> 12 & 0xFF, bus["awlen"] + 1))
                assert bus["awid"] == bus["awaddr"] >> 40
            if bus["wvalid"] and bus["wready"]:
                beats.append((bus["wdata"] >> 32, bus["wdata"] >> 8 & 0xFF))

    offers = [
        offer(dut, i, "aw", lengths[i], pattern(shape, f"offer {i}"), logs[i]) for i in MANAGERS
    ]
    run(dut, memory, background=[*offers, *map(data, MANAGERS)], limit=9000)
    assert beats == [(id, number) for id, number, length in bursts for _ in range(length)]


def test_a_memory_may_wait_for_data_before_it_takes_an_address():
    """As AXI4 lets it; a manager that waited for the address would stop here for ever."""
    dut = AxiShare(CONFIG)
    logs = ([], [])
    count = 6

    def data(index):
        async def bench(ctx):
            port = dut.managers[index]
            ctx.set(port.wvalid, 1)
            ctx.set(port.wlast, 1)

        return bench

    async def memory(ctx):
        for _ in range(2 * count):
            while not ctx.get(dut.axi.wvalid):
                await ctx.tick()
            assert ctx.get(dut.axi.awvalid)
            ctx.set(dut.axi.awready, 1)
            await ctx.tick()
            ctx.set(dut.axi.awready, 0)
            ctx.set(dut.axi.wready, 1)
            await ctx.tick()
            ctx.set(dut.axi.wready, 0)

    offers = [offer(dut, i, "aw", [1] * count, pattern("always", i), logs[i]) for i in MANAGERS]
    run(dut, *offers, memory, background=list(map(data, MANAGERS)))


def test_answers_go_by_their_id():
    dut = AxiShare(CONFIG)

    async def bench(ctx):
        for id in MANAGERS:
            ctx.set(dut.axi.rid, id)
            ctx.set(dut.axi.bid, 1 - id)
            ctx.set(dut.axi.rvalid, 1)
            ctx.set(dut.axi.bvalid, 1)
            for index in MANAGERS:
                port = dut.managers[index]
                assert (ctx.get(port.rvalid), ctx.get(port.bvalid)) == (index == id, index != id)
            assert ctx.get(dut.axi.rready)
            assert ctx.get(dut.axi.bready)
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize("index", MANAGERS)
def test_an_address_goes_through_in_its_own_cycle(index):
    """The other manager, idle, costs no cycle."""
    dut = AxiShare(CONFIG)

    async def bench(ctx):
        for channel in ("ar", "aw"):
            ctx.set(getattr(dut.managers[index], f"{channel}valid"), 1)
            ctx.set(getattr(dut.axi, f"{channel}ready"), 1)
            assert ctx.get(getattr(dut.axi, f"{channel}valid"))
            assert ctx.get(getattr(dut.managers[index], f"{channel}ready"))

    run(dut, bench)
