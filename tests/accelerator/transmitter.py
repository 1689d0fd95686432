"""A transmitter that never waits for credits, and notes in which cycles its link is busy."""

from __future__ import annotations

__all__ = ["Transmitter"]


class Transmitter:
    """Takes a head while the last flit before goes out, sends the header's flits from the next
    cycle on, then payload.

    Attributes
    ----------
    packets : payload of each packet that went out
    busy : cycles in which the link carried or waited for a flit
    waited : cycles of those in which payload was not there
    """

    def __init__(self, config, source, *, packets: int):
        self._header_flits, self._source, self._count = config.header_flits, source, packets
        self.packets: list[list[int]] = []
        self.busy: list[int] = []
        self.waited = 0

    async def bench(self, ctx):
        head, payload = self._source.head, self._source.payload
        left = headers = done = cycle = 0
        while done < self._count:
            ends = not headers and left <= 1
            ctx.set(payload.ready, left > 0 and not headers)
            ctx.set(head.ready, ends and (not left or bool(ctx.get(payload.valid))))
            _, _, valid, ready, flits, there, flit = await ctx.tick().sample(
                head.valid, head.ready, head.payload.flits, payload.valid, payload.payload.data
            )
            if headers or left:
                self.busy.append(cycle)
            if headers:
                headers -= 1
            elif left and there:
                self.packets[-1].append(flit)
                left -= 1
                done += left == 0
            elif left:
                self.waited += 1
            if valid and ready:
                left, headers = flits, self._header_flits
                self.packets.append([])
            cycle += 1
