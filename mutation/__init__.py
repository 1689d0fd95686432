"""Plants faults in the design and counts which of them tests and proofs notice."""
