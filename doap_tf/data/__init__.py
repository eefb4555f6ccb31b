"""Patches in memory, what to make batches of, and how to vary them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
