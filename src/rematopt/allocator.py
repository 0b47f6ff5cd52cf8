"""What CUDA's caching allocator reserves for a schedule, replayed without a GPU.

PyTorch takes memory from the device in segments and hands out blocks of them. A freed block goes back to
its pool, merged with free neighbours, and is handed out again; segments stay reserved. The reserved peak,
which the device must have, is therefore at least the allocated one; the difference is fragmentation. The
rules are those of PyTorch's native backend in its default settings:

- a request is rounded up to 512 bytes; up to 1 MiB the small pool serves it, above the large one;
- the smallest free block that is large enough is taken, of equals the one at the lowest address;
- without one a new segment is taken: 2 MiB in the small pool, 20 MiB for requests below 10 MiB, else the
  request rounded up to 2 MiB;
- what a block has too much is split off if it is at least 512 bytes (small pool) or above 1 MiB.

With expandable segments each pool is one segment that grows at its end, by pages of 2 MiB (small pool) or
20 MiB, so that a request needs no more new memory than what the free end is short of.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

MIB = 2**20
BLOCK = 512
SMALL = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
OWN_SEGMENT = 10 * MIB
OWN_ROUNDING = 2 * MIB


@dataclass(eq=False)
class Block:
    """A stretch of a segment, with its neighbours there.

    Parameters
    ----------
    address, size : int
        Where it begins, and its bytes.
    """

    address: int
    size: int
    free: bool = True
    before: Block | None = None
    behind: Block | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Order among free blocks: by size, then address."""
        return self.size, self.address

    def split(self, size: int) -> Block:
        """Cut the block down to ``size`` and return the rest."""
        rest = Block(self.address + size, self.size - size, before=self, behind=self.behind)
        if self.behind is not None:
            self.behind.before = rest
        self.size, self.behind = size, rest
        return rest

    def absorb_behind(self) -> None:
        """Merge the block behind into this one."""
        other = self.behind
        assert other is not None
        self.size += other.size
        self.behind = other.behind
        if other.behind is not None:
            other.behind.before = self


@dataclass
class Pool:
    """The blocks of small or of large requests.

    Parameters
    ----------
    small : bool
        Which of the two.
    base : int
        Where its addresses begin.
    expandable : bool
        Whether it is one segment that grows.
    """

    small: bool
    base: int
    expandable: bool
    reserved: int = 0
    free: list[Block] = field(default_factory=list)
    end: Block | None = None

    def take(self, size: int) -> Block:
        """Hand out a block of at least ``size`` bytes."""
        at = bisect.bisect_left(self.free, (size, 0), key=lambda block: block.key)
        block = self.free[at] if at < len(self.free) else self._grown(size)
        self._remove(block)
        left = block.size - size
        if left >= BLOCK if self.small or self.expandable else left > SMALL:
            rest = block.split(size)
            if self.end is block:
                self.end = rest
            self._add(rest)
        block.free = False
        return block

    def give_back(self, block: Block) -> None:
        """Take a block back and merge it with free neighbours."""
        block.free = True
        if block.behind is not None and block.behind.free:
            self._remove(block.behind)
            self._merge_behind(block)
        if block.before is not None and block.before.free:
            self._remove(block.before)
            block = block.before
            self._merge_behind(block)
        self._add(block)

    def _merge_behind(self, block: Block) -> None:
        if self.end is block.behind:
            self.end = block
        block.absorb_behind()

    def _grown(self, size: int) -> Block:
        """A free block for ``size`` bytes from newly reserved memory."""
        if not self.expandable:
            return self._add(self._reserve(self._segment(size)))
        page = SMALL_SEGMENT if self.small else LARGE_SEGMENT
        tail = self.end if self.end is not None and self.end.free else None
        new = self._reserve(_rounded(size - (tail.size if tail is not None else 0), page))
        new.before, self.end = self.end, new
        if new.before is not None:
            new.before.behind = new
        if tail is None:
            return self._add(new)
        self._remove(tail)
        self._merge_behind(tail)
        return self._add(tail)

    def _segment(self, size: int) -> int:
        if self.small:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < OWN_SEGMENT else _rounded(size, OWN_ROUNDING)

    def _reserve(self, size: int) -> Block:
        block = Block(self.base + self.reserved, size)
        self.reserved += size
        return block

    def _add(self, block: Block) -> Block:
        bisect.insort(self.free, block, key=lambda block: block.key)
        return block

    def _remove(self, block: Block) -> None:
        del self.free[bisect.bisect_left(self.free, block.key, key=lambda block: block.key)]


class CachingAllocator:
    """Replays requests on one stream.

    Parameters
    ----------
    expandable : bool
        Whether segments grow (``PYTORCH_ALLOC_CONF=expandable_segments:True``).

    Attributes
    ----------
    allocated_bytes : int
        Bytes of the blocks that are handed out.
    allocated_peak, reserved_peak : int
        Largest number of bytes handed out, and of all segments.
    """

    def __init__(self, *, expandable: bool = False) -> None:
        self._small = Pool(small=True, base=0, expandable=expandable)
        self._large = Pool(small=False, base=2**60, expandable=expandable)
        self.allocated_bytes = 0
        self.allocated_peak = 0

    @property
    def reserved_peak(self) -> int:
        """Bytes of all segments; they are never given back."""
        return self._small.reserved + self._large.reserved

    def allocate(self, size: int) -> Block | None:
        """Hand out a block for ``size`` bytes; None for 0 bytes, which need no block."""
        if size <= 0:
            return None
        rounded = _rounded(size, BLOCK)
        block = (self._small if rounded <= SMALL else self._large).take(rounded)
        self.allocated_bytes += block.size
        self.allocated_peak = max(self.allocated_peak, self.allocated_bytes)
        return block

    def free(self, block: Block | None) -> None:
        """Take back what :meth:`allocate` handed out."""
        if block is not None:
            self.allocated_bytes -= block.size
            (self._small if block.address < self._large.base else self._large).give_back(block)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
