"""How much does this process grow while a call runs, as the operating system sees it?

Counted bytes say what a formula or an instrument names; the system sees everything: temporaries,
libraries, what the allocator holds back. A thread looks again and again, so a peak that is shorter
than a look is missed. Tensors below 32 MiB may lie in memory that the process had before: make
them larger, and call once beforehand, so that libraries are loaded.

    >>> grown = watch_process(lambda: torch.ones(2**24))
    >>> round(grown.kept_bytes / 2**26)
    1
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

SECONDS_BETWEEN_LOOKS = 0.0005


@dataclass(frozen=True)
class ProcessGrowth:
    """What a call adds to the resident memory of its process.

    Attributes:
        kept_bytes: Afterwards, while what it returned is still there.
        peak_bytes: The most that was seen while it ran.
    """

    kept_bytes: int
    peak_bytes: int


def watch_process(call: Callable[[], object]) -> ProcessGrowth:
    """Bytes of resident memory that a call adds, at its peak and at its end.

    Args:
        call: What it returns is kept until the last look.
    """
    import psutil  # reads /proc when it is imported, which a sandbox may lack

    resident = psutil.Process().memory_info
    before, seen, has_ended = resident().rss, [0], threading.Event()

    def look() -> None:
        while not has_ended.wait(SECONDS_BETWEEN_LOOKS):
            seen.append(resident().rss)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        kept = call()
        after = resident().rss
    finally:
        has_ended.set()
        watcher.join()
    del kept
    return ProcessGrowth(kept_bytes=after - before, peak_bytes=max(*seen, after) - before)
