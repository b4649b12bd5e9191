"""Naming the cause of a divergence: from a grid of observations, or by a search of its own.

`grid` reads what was measured, `search` says what to measure next; both are pure. `probes` measures
on real vLLM, `suspects` are the knobs that may be to blame, `note` is what people read.
"""
