"""Does the same request give the same numbers when only one thing about how it is run changed?"""

from __future__ import annotations

__version__ = "0.1.0"
