"""The searches of this wing, exactly, with less work."""

from vrt.rnnt.fast.search import fast_malsd

__all__ = ["fast_malsd"]
