"""`WriteTracker`: acknowledgements out of order over several slots, strays, errors, retirement."""

import random
from collections import deque

import pytest

from hdl.accelerator.write_tracker import WriteTracker
from hdl.interfaces import Response
from tests.lib.simulate import run

from .ports import quantizing, small

RANKS = 2


class Model:
    """Plays read-out and the ranks, and knows what must retire when."""

    def __init__(self, config, draw):
        self.config, self.draw = config, draw
        self.dut = WriteTracker(config)
        self.open = deque()  # waves in their write phase, oldest first
        self.slot = 0  # of the next wave
        self.owed = [[] for _ in range(RANKS)]  # slots of unanswered packets, by port
        self.retired = []
        self.opened = 0

    async def step(
        self, ctx, *, opens=None, packet=False, close=None, answers=None, extra=None, scales=0
    ):
        """One cycle.

        `opens`: the operation; `close`: (last, written); `answers`: (slot, response) by port;
        `extra`: ports whose answer is a stray; `scales`: packets of scales, with `opens`.
        """
        dut, answers = self.dut, answers or {}
        ctx.set(dut.open, opens is not None)
        ctx.set(dut.operation, opens or 0)
        ctx.set(dut.packet, packet)
        if self.config.quantizes:
            # What stands there in other cycles means nothing.
            noise = self.draw.randint(0, self.config.scale_packets)
            ctx.set(dut.scale_packets, scales if opens is not None else noise)
        ctx.set(dut.close, close is not None)
        ctx.set(dut.close_last, close[0] if close else 0)
        ctx.set(dut.written, close[1] if close else 0)
        ctx.set(dut.acknowledge, sum(1 << port for port in answers))
        for port, (slot, response) in answers.items():
            ctx.set(dut.acknowledged_slot[port], slot)
            ctx.set(dut.response[port], response)
        await ctx.delay(0)
        strays = sum(1 << port for port in extra or ())
        assert ctx.get(dut.stray) == strays
        bad = sum(
            1 << port for port, (_, response) in answers.items()
            if response.value > 1 and port not in (extra or ())
        )  # fmt: skip
        assert ctx.get(dut.write_error) == bad
        for port, (slot, _) in answers.items():
            if bad >> port & 1:
                wave = next(wave for wave in self.open if wave["slot"] == slot)
                assert ctx.get(dut.error_operation[port]) == wave["operation"]
        # The oldest wave that is closed and wholly acknowledged before this cycle retires in it.
        oldest = self.open[0] if self.open else None
        due = bool(oldest) and oldest["closed"] and not any(oldest["owed"])
        assert ctx.get(dut.retire) == due, (self.open, self.retired)
        if due:
            assert ctx.get(dut.retire_operation) == oldest["operation"]
            assert ctx.get(dut.retire_last) == oldest["last"]
            assert ctx.get(dut.retire_written) == oldest["written"]
        await ctx.tick()
        self._follow(opens, packet, close, answers, extra or (), due, scales)
        assert ctx.get(dut.writing) == len(self.open)
        assert ctx.get(dut.slot_free) == (len(self.open) < self.config.write_waves)
        assert ctx.get(dut.write_slot) == self.slot

    def _follow(self, opens, packet, close, answers, extra, due, scales):
        for port, (slot, _) in answers.items():
            if port not in extra:
                self.owed[port].remove(slot)
                next(w for w in self.open if w["slot"] == slot)["owed"][port] -= 1
        if due:
            self.retired.append(self.open.popleft()["number"])
        if opens is not None:
            self.open.append(
                dict(number=self.opened, slot=self.slot, operation=opens, owed=[0] * RANKS,
                     closed=False, last=0, written=0)
            )  # fmt: skip
            self.opened += 1
        for _ in range(packet + scales):
            for port in range(RANKS):
                self.owed[port].append(self.slot)
                self.open[-1]["owed"][port] += 1
        if close:
            self.open[-1].update(closed=True, last=close[0], written=close[1])
            self.slot = (self.slot + 1) % self.config.write_waves


@pytest.mark.parametrize("write_waves", [1, 2, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_random_traffic_against_a_model(write_waves, seed):
    """Answers of all slots in any order, a wave dropped now and then, strays, errors."""
    print("seed", seed)
    check_random_traffic(small(write_waves=write_waves), f"{write_waves} {seed}")


@pytest.mark.parametrize("wave_bytes", [128, 384, 1024])  # 1, 2, 4 packets of scales
@pytest.mark.parametrize("write_waves", [1, 4])
def test_random_traffic_with_scales(wave_bytes, write_waves):
    """The same, and each wave has as many packets more as it has of scales, or none."""
    config = quantizing(wave_bytes=wave_bytes, write_waves=write_waves)
    check_random_traffic(config, f"{wave_bytes} {write_waves}")


def check_random_traffic(config, seed):
    draw = random.Random(seed)
    model, write_waves = Model(config, draw), config.write_waves

    async def body(ctx):
        packets = 0  # left of the wave that is open
        begun = False
        while len(model.retired) < 60:
            act = {}
            if not begun and ctx.get(model.dut.slot_free) and draw.random() < 0.7:
                act["opens"] = draw.randrange(8)
                if draw.random() < 0.2:  # dropped
                    act["close"] = (draw.randint(0, 1), 0)
                else:
                    packets = draw.randint(1, min(4, config.packets_per_wave))
                    begun = act["packet"] = True
                    act["scales"] = draw.randint(0, config.scale_packets)
                    packets -= 1
            elif begun and packets and draw.random() < 0.6:
                act["packet"] = True
                packets -= 1
            if begun and not packets and act.get("packet"):
                act["close"] = (draw.randint(0, 1), 1)
                begun = False
            answers, extra = {}, []
            for port in range(RANKS):
                owed = model.owed[port]
                if owed and draw.random() < 0.6:
                    answers[port] = (draw.choice(owed), draw.choice(list(Response)))
                elif draw.random() < 0.1:
                    free = [s for s in range(write_waves) if s not in owed]
                    if free:
                        answers[port] = (draw.choice(free), Response.DECERR)
                        extra.append(port)
            await model.step(ctx, answers=answers, extra=extra, **act)

    run(model.dut, body)
    assert model.retired == list(range(len(model.retired)))


def test_a_wave_is_not_over_while_it_may_still_send():
    """All packets so far are acknowledged, but the wave is not closed."""
    model = Model(small(write_waves=2), random.Random(0))

    async def body(ctx):
        both = dict.fromkeys(range(RANKS), (0, Response.OKAY))
        await model.step(ctx, opens=3, packet=True)
        await model.step(ctx, answers=both)
        for _ in range(5):
            await model.step(ctx)
        await model.step(ctx, packet=True, close=(1, 1))
        for _ in range(5):
            await model.step(ctx)
        assert not model.retired
        # The last answer of each port in another cycle: retired after the last of them.
        await model.step(ctx, answers={0: (0, Response.OKAY)})
        await model.step(ctx)
        assert not model.retired
        await model.step(ctx, answers={1: (0, Response.OKAY)})
        await model.step(ctx)
        assert model.retired == [0]

    run(model.dut, body)


def test_waves_retire_in_order_whatever_the_order_of_acknowledgement():
    model = Model(small(write_waves=4), random.Random(0))

    async def body(ctx):
        for wave in range(4):
            await model.step(ctx, opens=wave, packet=True, close=(0, 1))
        for slot in (3, 1, 2):
            await model.step(ctx, answers=dict.fromkeys(range(RANKS), (slot, Response.OKAY)))
        await model.step(ctx)
        assert not model.retired
        await model.step(ctx, answers=dict.fromkeys(range(RANKS), (0, Response.OKAY)))
        for count in range(1, 5):  # one a cycle
            await model.step(ctx)
            assert len(model.retired) == count

    run(model.dut, body)


def test_a_wave_is_not_over_before_its_scales_are_acknowledged():
    """They count from its opening on, though they go out behind everything else."""
    model = Model(quantizing(wave_bytes=384, write_waves=2), random.Random(0))

    async def body(ctx):
        both = dict.fromkeys(range(RANKS), (0, Response.OKAY))
        await model.step(ctx, opens=3, packet=True, scales=2, close=(1, 1))
        for _ in range(3):
            await model.step(ctx)
            await model.step(ctx)
            assert not model.retired
            await model.step(ctx, answers=both)
        await model.step(ctx)
        assert model.retired == [0]
        # A fourth answer is nobody's.
        await model.step(ctx, answers=both, extra=range(RANKS))

    run(model.dut, body)


@pytest.mark.parametrize("turns", range(4))
def test_waves_that_are_flushed_owe_nothing_any_more(turns):
    """Their answers are strays, and the slot's next wave waits for its own; in each slot."""
    config = small(contexts=2, write_waves=4)
    dut = WriteTracker(config)
    everyone = (1 << RANKS) - 1

    async def pulse(ctx, **values):
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        for name in values:
            ctx.set(getattr(dut, name), 0)

    async def wave(ctx, operation, packets, ranks=everyone):
        slot = ctx.get(dut.write_slot)
        ctx.set(dut.ranks, ranks)
        await pulse(ctx, open=1, packet=1, operation=operation)
        for _ in range(packets - 1):
            await pulse(ctx, packet=1)
        await pulse(ctx, close=1, close_last=1, written=1)
        return slot

    def answer(ctx, slot, ranks):
        for port in range(RANKS):
            ctx.set(dut.acknowledged_slot[port], slot)
        ctx.set(dut.acknowledge, ranks)

    async def bench(ctx):
        for turn in range(turns):  # so that it is another slot
            slot = await wave(ctx, turn, 1)
            answer(ctx, slot, everyone)
            await ctx.tick()
            answer(ctx, slot, 0)
            assert ctx.get(dut.retire)
            await ctx.tick()
        slot = await wave(ctx, 5, 2, ranks=0b10)
        assert ctx.get(dut.late) == 0b10
        assert not ctx.get(dut.retire)
        ctx.set(dut.flush, 1)
        assert (ctx.get(dut.retire), ctx.get(dut.retire_operation)) == (1, 5)
        await ctx.tick()
        ctx.set(dut.flush, 0)
        assert not ctx.get(dut.writing)
        answer(ctx, slot, everyone)
        assert ctx.get(dut.stray) == everyone
        assert not ctx.get(dut.write_error)
        await ctx.tick()
        answer(ctx, slot, 0)
        for _ in range(config.write_waves - 1):
            other = await wave(ctx, 1, 1)
            answer(ctx, other, everyone)
            await ctx.tick()
            answer(ctx, other, 0)
            await ctx.tick()
        assert await wave(ctx, 6, 1) == slot
        assert ctx.get(dut.late) == everyone
        answer(ctx, slot, 0b01)
        assert not ctx.get(dut.stray)
        await ctx.tick()
        assert (ctx.get(dut.late), ctx.get(dut.retire)) == (0b10, 0)
        answer(ctx, slot, 0b10)
        await ctx.tick()
        assert (ctx.get(dut.retire), ctx.get(dut.retire_operation)) == (1, 6)

    run(dut, bench)
