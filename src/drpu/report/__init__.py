"""The HTML report and the plots, computed from counts only; the displays are in ``drpu.plots``."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
