"""Settings that the tests of the judge share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no finding.
settings.register_profile("judge", deadline=None, max_examples=60)
settings.load_profile("judge")
