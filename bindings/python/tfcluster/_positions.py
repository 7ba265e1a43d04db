"""Which rows of a queue a checkpoint has the effect of, by partition."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping

Entry = tuple[int, int, int, bool]  # partition, consecutive partitions, rows of each, whether that is all of them


class Positions:
    """Consecutive whole partitions of the same size are one entry, so that a long feed has a short list."""

    def __init__(self, entries: Iterable[Iterable[int]] = ()) -> None:
        self._whole: list[tuple[int, int, int]] = []  # first partition, partitions, rows of each; in order
        self._partial: dict[int, int] = {}
        for partition, partitions, rows, is_whole in entries:
            if is_whole:
                self._whole.append((partition, partitions, rows))
            else:
                self._partial[partition] = rows

    def update(self, positions: Mapping[int, tuple[int, bool]]) -> None:
        """Adds positions of partitions: rows, and whether those are all."""
        for partition, (rows, is_whole) in positions.items():
            if self._has_whole(partition):
                continue
            if is_whole:
                self._partial.pop(partition, None)
                self._add_whole(partition, rows)
            else:
                self._partial[partition] = max(rows, self._partial.get(partition, 0))

    def entries(self) -> list[Entry]:
        """All of them, in ascending order of the partitions."""
        return sorted([(*entry, True) for entry in self._whole]
                      + [(partition, 1, rows, False) for partition, rows in self._partial.items()])

    def _has_whole(self, partition: int) -> bool:
        at = bisect.bisect_right(self._whole, partition, key=lambda entry: entry[0]) - 1
        return at >= 0 and partition < self._whole[at][0] + self._whole[at][1]

    def _add_whole(self, partition: int, rows: int) -> None:
        at = bisect.bisect_right(self._whole, partition, key=lambda entry: entry[0])
        entry = partition, 1, rows
        if at < len(self._whole) and self._whole[at][0] == partition + 1 and self._whole[at][2] == rows:
            entry = partition, self._whole.pop(at)[1] + 1, rows
        if at and sum(self._whole[at - 1][:2]) == partition and self._whole[at - 1][2] == rows:
            at -= 1
            first, count, _ = self._whole.pop(at)
            entry = first, count + entry[1], rows
        self._whole.insert(at, entry)
