"""The command `python -m sim.allreduce`: arguments, input, runs, reports."""
