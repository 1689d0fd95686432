"""All proofs."""

from __future__ import annotations

from . import stream_queue
from .proof import Proof

__all__ = ["PROOFS"]

#: By name, in the order of the list in the documentation.
PROOFS: dict[str, Proof] = {
    proof.name: proof for module in (stream_queue,) for proof in module.PROOFS
}
