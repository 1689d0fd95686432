"""Operation, collective and chunk of an instruction: what is taken, and the code of what is not."""

import pytest

from hdl.accelerator.instruction_queue import COLLECTIVE_SHIFT, OPERATION_SHIFT, InstructionQueue
from hdl.accelerator.layouts import OperationLayout, Status
from hdl.interfaces import Collective, Format, Operation
from tests.lib.simulate import run

from .ports import post, small

RANKS = 3
EVERYONE = 0b111


def word(format="fp16", operation="sum", collective="whole"):
    return (
        Format[format.upper()].value
        | Operation[operation.upper()].value << OPERATION_SHIFT
        | Collective[collective.upper()].value << COLLECTIVE_SHIFT
    )


def config(**overrides):
    fields = dict(
        ranks=RANKS, flit_bytes=16, payload_bytes=32, wave_bytes=512, block=64,
        formats="fp16,int32,inq8", operations="sum,max,average", collectives="all",
    )  # fmt: skip
    return small(**fields | overrides)


def posted(cfg, *instructions):
    """How each post ends, and what is launched where that is well."""
    dut = InstructionQueue(cfg)
    ends, launched = [], []
    good = dict(
        sources=[0x100] * RANKS, destinations=[0x100] * RANKS, flags=[0x800] * RANKS,
        length=64,
    )  # fmt: skip
    if cfg.quantizes:
        good |= dict(scale_sources=[0x400] * RANKS, scale_destinations=[0x400] * RANKS)
    if cfg.subsets:
        good |= dict(source_ranks=EVERYONE, destination_ranks=EVERYONE)

    async def bench(ctx):
        if cfg.subsets:
            ctx.set(dut.members, EVERYONE)
        for instruction in instructions:
            ends.append(await post(ctx, dut, **{**good, **instruction}))
            await ctx.tick().repeat(3)
            assert ctx.get(dut.launch.valid) == (ends[-1][0] is Status.OK)
            if ends[-1][0] is Status.OK:
                launched.append(ctx.get(dut.launch.payload))
                ctx.set(dut.launch.ready, 1)
                ctx.set(dut.retire, 1)
                await ctx.tick()
                ctx.set(dut.launch.ready, 0)
                ctx.set(dut.retire, 0)
                await ctx.tick().repeat(2)

    run(dut, bench, limit=20_000)
    return ends, launched


#: Format words and common fields, and the code of each.
CASES = [
    (dict(format=word()), Status.OK),
    (dict(format=word(operation="max")), Status.OK),
    (dict(format=word(operation="average")), Status.OK),
    (dict(format=word("int32", "max")), Status.OK),
    (dict(format=word("inq8")), Status.OK),
    # Not built, or not for the format; codes that are none, and one that is too wide for its field.
    (dict(format=word(operation="min")), Status.BAD_OPERATION),
    (dict(format=word("int32", "average")), Status.BAD_OPERATION),
    (dict(format=word("inq8", "max")), Status.BAD_OPERATION),
    (dict(format=word("inq8", "copy"), source_ranks=1), Status.BAD_OPERATION),
    (dict(format=5 << OPERATION_SHIFT), Status.BAD_OPERATION),
    (dict(format=0x80 << OPERATION_SHIFT), Status.BAD_OPERATION),
    (dict(format=3 << COLLECTIVE_SHIFT), Status.BAD_OPERATION),
    (dict(format=4 << COLLECTIVE_SHIFT), Status.BAD_OPERATION),
    (dict(format=0x8000 << COLLECTIVE_SHIFT), Status.BAD_OPERATION),
    (dict(format=word("bf16")), Status.BAD_FORMAT),
    (dict(format=word() | 0x80), Status.BAD_FORMAT),
    # Integers of four bytes.
    (dict(format=word("int32"), length=62), Status.BAD_LENGTH),
    (dict(format=word("int32"), length=61), Status.BAD_LENGTH),
    (dict(format=word("fp16"), length=62), Status.OK),
    (dict(format=word("int32"), length=60), Status.OK),
    # A copy has one source; where it is gathered, one a chunk.
    (dict(format=word(operation="copy")), Status.BAD_RANKS),
    (dict(format=word(operation="copy"), source_ranks=0b101), Status.BAD_RANKS),
    (dict(format=word(operation="copy"), source_ranks=0b100), Status.OK),
    (dict(format=word(operation="copy", collective="gather"), chunk=16), Status.OK),
    (dict(format=word(operation="copy", collective="scatter"), chunk=16), Status.BAD_RANKS),
    (dict(format=word(operation="copy", collective="scatter"), chunk=16, source_ranks=2),
     Status.OK),
    # What is gathered is copied; scales are not cut.
    (dict(format=word(collective="gather"), chunk=16), Status.BAD_OPERATION),
    (dict(format=word("inq8", collective="scatter"), chunk=16), Status.BAD_OPERATION),
    # Chunks: whole flits, and some; of no concern where there are none.
    (dict(format=word(collective="scatter"), chunk=16), Status.OK),
    (dict(format=word(collective="scatter"), chunk=(1 << 40) - 16), Status.OK),
    (dict(format=word(collective="scatter"), chunk=0), Status.BAD_CHUNK),
    (dict(format=word(collective="scatter"), chunk=24), Status.BAD_CHUNK),
    (dict(format=word(collective="scatter"), chunk=17), Status.BAD_CHUNK),
    (dict(format=word(collective="scatter"), chunk=1 << 40), Status.BAD_CHUNK),
    (dict(format=word(collective="scatter"), chunk=1 << 63), Status.BAD_CHUNK),
    (dict(format=word(), chunk=17), Status.OK),
    # Ranks.
    (dict(format=word(), source_ranks=0), Status.BAD_RANKS),
    (dict(format=word(), destination_ranks=0), Status.BAD_RANKS),
    (dict(format=word(), source_ranks=1, destination_ranks=4), Status.OK),
]  # fmt: skip


def test_codes():
    ends, launched = posted(config(), *(fields for fields, _ in CASES))
    for (fields, code), (got, rank) in zip(CASES, ends, strict=True):
        assert (got, rank) == (code, 0), f"{fields}"
    taken = [fields for fields, code in CASES if code is Status.OK]
    len_of_chunk = OperationLayout(config()).members["chunk"].width
    for fields, operation in zip(taken, launched, strict=True):
        assert operation.format.value == fields["format"] & 3
        assert operation.operation.value == fields["format"] >> OPERATION_SHIFT & 7
        assert operation.collective.value == fields["format"] >> COLLECTIVE_SHIFT
        if operation.collective is not Collective.WHOLE:
            assert operation.chunk == min(fields["chunk"], (1 << len_of_chunk) - 1)
        assert operation.sources == fields.get("source_ranks", EVERYONE)
        assert operation.destinations == fields.get("destination_ranks", EVERYONE)


def test_a_chunk_longer_than_the_memory_stays_longer_than_any_vector():
    """The memory has 4096 bytes: a chunk of 2^40 - 16 must not pass as one of 4080 at launch."""
    instruction = dict(format=word(collective="scatter"), chunk=(1 << 40) - 4096 + 16)
    _, launched = posted(config(), instruction)
    assert launched[0].chunk >= 4096


@pytest.mark.parametrize(
    ("fields", "cfg"),
    [
        (dict(format=word(operation="max")), dict(operations="sum", collectives="all-reduce")),
        (dict(format=word(collective="scatter")), dict(operations="sum", collectives="all-reduce")),
    ],
)
def test_what_is_not_built_at_all_is_no_format(fields, cfg):
    """Then the whole word is the format's code, as it has always been."""
    assert posted(config(**cfg), fields)[0] == [(Status.BAD_FORMAT, 0)]


def test_operations_without_collectives():
    cfg = config(collectives="all-reduce")
    cases = [
        (dict(format=word(operation="max")), Status.OK),
        (dict(format=word(operation="copy")), Status.BAD_OPERATION),
        (dict(format=word(collective="scatter")), Status.BAD_OPERATION),
    ]
    ends, _ = posted(cfg, *(fields for fields, _ in cases))
    assert ends == [(code, 0) for _, code in cases]
