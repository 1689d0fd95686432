"""All proofs."""

from __future__ import annotations

from . import (
    address_check,
    arbiter,
    arithmetic,
    barrier,
    core,
    doorbell,
    entry_shares,
    flag_writer,
    instruction_queue,
    late_flags,
    link_end,
    operation_table,
    outstanding,
    packet_paths,
    read_engine,
    read_out,
    receiver,
    request_issuer,
    stream_queue,
    streams,
    transmitter,
    turns,
    wave_controller,
    wave_table,
    write_back,
    write_engine,
    write_tracker,
)
from .proof import Proof

__all__ = ["PROOFS"]

#: By name, in the order of the list in the documentation.
PROOFS: dict[str, Proof] = {
    proof.name: proof
    for module in (
        stream_queue,
        streams,
        arbiter,
        core,
        barrier,
        doorbell,
        address_check,
        instruction_queue,
        turns,
        entry_shares,
        wave_controller,
        request_issuer,
        wave_table,
        read_out,
        write_back,
        write_tracker,
        operation_table,
        flag_writer,
        late_flags,
        outstanding,
        packet_paths,
        arithmetic,
        link_end,
        transmitter,
        receiver,
        read_engine,
        write_engine,
    )
    for proof in module.PROOFS
}
