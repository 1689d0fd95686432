"""Random scenarios of tenants, collectives, traffic and failures, each decided by its seed."""
