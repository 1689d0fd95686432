"""Properties of the design's components, and the jobs that prove them."""
