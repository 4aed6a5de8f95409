"""glibc's allocator kept from giving memory back to the system between calls.

oneDNN packs the LSTM's 26 MB of weights anew at each call; by default glibc maps and unmaps them
each time, thousands of page faults a call. NeMo is measured both ways.
"""

import ctypes
import sys

# Of <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """For the rest of the process; False where the allocator is not glibc's."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # glibc takes at most 32 MB for the threshold of mapping; larger blocks stay mapped.
    most = 32 << 20
    return bool(mallopt(M_MMAP_THRESHOLD, most)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES))
