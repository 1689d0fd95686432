"""What is counted of each port and its link: every total by itself, and of no other port."""

import pytest

from hdl.accelerator.totals import port_totals
from hdl.interfaces import LinkState, Response
from sim import traffic
from sim.golden import traffic as golden
from sim.tenants import Tenant
from sim.traffic import Traffic

from .tenancy import CONFIG, FORWARDING, RANKS, accept, pair, run

#: Bytes of an element.
ELEMENT = 2
#: Elements of an operation of several waves.
ELEMENTS = 300
#: Flits of a header, which is all of a request, and of an answer without payload.
HEADER = FORWARDING.header_flits
#: Flits of an arrival or a flag.
WORD = HEADER + 1
#: Cycles in which everything comes to its end.
SETTLES = 600
#: Ordinary requests of each rank, and cycles in which all of them end.
REQUESTS, TRAFFIC_ENDS = 40, 4000
EVERYONE = (1 << RANKS) - 1


def of_port(tenant: Tenant, rank: int) -> dict[str, int]:
    host = tenant.bed.host
    return {total.name: host.read("ports", f"{total.name}_{rank}") for total in port_totals(CONFIG)}


def quiet(**counted: int) -> dict[str, int]:
    """Totals of a port without errors."""
    return dict.fromkeys((total.name for total in port_totals(CONFIG)), 0) | counted


@pytest.mark.parametrize("elements", [1, 15, 16, 17, 300])
def test_packets_and_bytes_of_each_port(elements):
    """Both tenants', of operations that read some ranks and write others."""
    tenants = pair(members=((0, 1, 2), (1, 2)))
    plans = (((0, 2), (1,)), ((1,), (1, 2)))
    for seed, (tenant, (sources, destinations)) in enumerate(zip(tenants, plans, strict=True)):
        ranks = {"sources": sources, "destinations": destinations}
        accept(tenant, seed, elements, in_place=False, **ranks)
        tenant.program()
    bed = tenants[0].bed
    bed.host.go([0, 1])
    for tenant in tenants:
        assert tenant.wait(), bed.state()
        tenant.expect()
    assert not bed.differences()
    length, packets = ELEMENT * elements, CONFIG.packets(ELEMENT * elements)
    asked = -(-length // CONFIG.flit_bytes) * CONFIG.flit_bytes  # reads are of whole flits
    for rank in range(RANKS):
        reads = sum(rank in sources for sources, _ in plans)
        writes = sum(rank in destinations for _, destinations in plans)
        flags = sum(rank in tenant.members for tenant in tenants)
        assert of_port(tenants[0], rank) == quiet(
            read_packets=reads * packets, read_bytes=reads * asked,
            write_packets=writes * packets + flags, write_bytes=writes * length,
        )  # fmt: skip
    bed.host.write("switch", "clear", 1)
    for rank in range(RANKS):
        assert of_port(tenants[0], rank) == quiet()


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_an_error_counts_once_at_its_port(kind, response, rank):
    tenant, _ = pair()
    host = tenant.bed.host
    size = CONFIG.packets(ELEMENT * ELEMENTS) * CONFIG.payload_bytes
    operation = accept(tenant, rank, ELEMENTS, in_place=False)
    where = operation.where.sources if kind == "read" else operation.where.destinations
    host.write(f"rank{rank}", f"bad_{kind}", where[rank] + size // 2)
    host.write(f"rank{rank}", f"{kind}_error", response.value)
    tenant.program()
    host.go([0])
    assert tenant.wait()
    host.wait(SETTLES)
    host.write(f"rank{rank}", f"{kind}_error", 0)
    errors = [total.name for total in port_totals(CONFIG) if "err" in total.name]
    for port in range(RANKS):
        counted = {name: of_port(tenant, port)[name] for name in errors}
        here = {f"{kind}_{response.name.lower()}": 1} if port == rank else {}
        assert counted == dict.fromkeys(errors, 0) | here


@pytest.mark.large
@pytest.mark.parametrize("rank", range(RANKS))
def test_a_link_that_goes_down_counts_at_its_port(rank):
    tenants = pair(config=FORWARDING)
    host = tenants[0].bed.host
    for outages in (1, 2, 3):
        host.write("system", "links_up", EVERYONE & ~(1 << rank))
        host.wait(SETTLES)
        host.write("system", "links_up", EVERYONE)
        host.wait(SETTLES)
        for port in range(RANKS):
            assert of_port(tenants[0], port) == quiet(links_lost=outages * (port == rank))
            state = LinkState(host.read("ports", f"link_state_{port}"))
            assert state is LinkState.UP


def flits(tenant: Tenant) -> dict[str, list[int]]:
    """By way and class, flits of each rank's link."""
    names = [f"{way}_{kind}" for way in ("sent", "received") for kind in ("inc", "ordinary")]
    host = tenant.bed.host
    return {
        name: [host.read("switch", f"{name}_{rank}") for rank in range(RANKS)] for name in names
    }


def of_payload(length: int) -> int:
    """Flits of so many bytes, without headers."""
    return -(-length // FORWARDING.flit_bytes)


@pytest.mark.large
@pytest.mark.parametrize("elements", [1, 17, ELEMENTS])
def test_flits_of_an_operation_are_the_accelerators(elements):
    """From the switch: requests, results, flags, answers to arrivals; to it, the others."""
    tenant, _ = pair(members=((0, 2), (0, 1, 2)), config=FORWARDING)
    tenant.bed.host.wait(SETTLES)
    tenant.bed.host.write("switch", "clear", 1)
    run(tenant, seed=elements, elements=elements)
    tenant.bed.host.wait(SETTLES)
    length = ELEMENT * elements
    requests = -(-length // FORWARDING.read_request_bytes)
    packets, payload = FORWARDING.packets(length), of_payload(length)
    sent = requests * HEADER + packets * HEADER + payload + WORD + HEADER
    received = WORD + packets * HEADER + payload + (packets + 1) * HEADER
    nothing = [0] * RANKS
    assert flits(tenant) == {
        "sent_inc": [sent, 0, sent], "received_inc": [received, 0, received],
        "sent_ordinary": nothing, "received_ordinary": nothing,
    }  # fmt: skip
    tenant.bed.host.write("switch", "clear", 1)
    assert set(map(tuple, flits(tenant).values())) == {tuple(nothing)}


def settings(rank: int, **fields) -> Traffic:
    given = dict(slots=4, read_base=0x2800, write_base=0x3000, seed=rank, bytes=24, count=REQUESTS)
    return Traffic(**given | fields)


def begin(tenant: Tenant, traffics: list[Traffic]):
    traffic.prepare(tenant.bed, traffics)
    traffic.expect(tenant.bed, traffics)
    traffic.start(tenant.bed)


@pytest.mark.large
@pytest.mark.parametrize("writes", [0, 100, 256])
def test_flits_of_ordinary_packets_are_not(writes):
    """Each rank's own requests and what they are answered, and other ranks' at its memory."""
    tenant, _ = pair(config=FORWARDING)
    bed = tenant.bed
    bed.host.wait(SETTLES)
    bed.host.write("switch", "clear", 1)
    patterns = ("all_to_all", "neighbour", "random")
    traffics = [
        settings(rank, pattern=pattern, writes=writes) for rank, pattern in enumerate(patterns)
    ]
    begin(tenant, traffics)
    bed.host.wait(TRAFFIC_ENDS)
    assert bed.host.read("system", "traffic_done") == EVERYONE
    assert not bed.differences()
    received, sent = [0] * RANKS, [0] * RANKS
    shape = golden.Shape(RANKS, FORWARDING.payload_bytes)
    for rank, each in enumerate(traffics):
        full = HEADER + of_payload(each.bytes)
        for request in golden.requests(shape, each, rank):
            there, back = (full, HEADER) if request.write else (HEADER, full)
            received[rank] += there
            sent[request.destination] += there
            received[request.destination] += back
            sent[rank] += back
    nothing = [0] * RANKS
    assert flits(tenant) == {
        "sent_ordinary": sent, "received_ordinary": received,
        "sent_inc": nothing, "received_inc": nothing,
    }  # fmt: skip


@pytest.mark.large
@pytest.mark.parametrize("target", range(RANKS))
@pytest.mark.parametrize("writes", [0, 256])
def test_requests_to_a_rank_whose_link_is_down_are_refused_and_counted(target, writes):
    """And so long as others' packets go to and fro, it comes up all the same."""
    tenant, other = pair(config=FORWARDING)
    bed, host = tenant.bed, tenant.bed.host
    before = host.read("switch", "core_refused")
    others = [rank for rank in range(RANKS) if rank != target]
    host.write("system", "links_up", EVERYONE & ~(1 << target))
    host.wait(SETTLES)
    traffic.prepare(
        bed, [settings(rank, pattern="hot_spot", target=target, writes=writes)
              for rank in range(RANKS)],
    )  # fmt: skip
    traffic.start(bed)
    host.wait(TRAFFIC_ENDS)
    assert host.read("system", "traffic_done") == EVERYONE
    for rank in others:
        assert host.read(f"rank{rank}", "traffic_errors") == REQUESTS
    assert host.read("switch", "core_refused") == before + REQUESTS * len(others)
    assert host.read("switch", "core_dropped") == 0
    # The others go on among themselves while the link comes back.
    among = [
        settings(rank, pattern="hot_spot", target=others[rank == others[0]], writes=128,
                 count=TRAFFIC_ENDS if rank in others else 0)
        for rank in range(RANKS)
    ]  # fmt: skip
    begin(tenant, among)
    host.wait(100)
    host.write("system", "links_up", EVERYONE)
    host.wait(SETTLES)
    assert host.read("system", "traffic_done") != EVERYONE
    assert LinkState(host.read("ports", f"link_state_{target}")) is LinkState.UP
    traffic.stop(bed)
    run(tenant, other, seed=target)
