"""What is believed about the share of positives: densities learned from many tables."""

from __future__ import annotations

import lazy_loader

# Each name is imported from the module stated in __init__.pyi when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
