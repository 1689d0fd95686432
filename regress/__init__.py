"""The whole regression: everything that checks the design, with one page about it."""
