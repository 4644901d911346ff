"""Find passages of several notes that are equal or similar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memsync.index.vectors import to_matrix
from memsync.model.upkeep import NoteLines

if TYPE_CHECKING:
    from memsync.ports import Progress

_BLOCK_ROWS = 256


def similar_passages(
    places: Mapping[int, Sequence[NoteLines]],
    vectors: Mapping[int, bytes],
    min_score: float,
    max_pairs: int,
    progress: Progress,
) -> list[tuple[float, Sequence[NoteLines]]]:
    """Return groups of equal (score 1) or similar passages that are in several notes, highest score first.

    Joins the nearest pairs of `vectors` (float16, by passage) first: a group's score is the cosine of its last pair.
    """
    passages = list(vectors)
    groups = {passage: [passage] for passage in places}  # passages of one group share the list
    scores = dict.fromkeys(places, 1.0)  # by a group's first passage
    homes = [_home(passage, places[passage]) for passage in passages]
    for score, row, column in _near_pairs(list(vectors.values()), homes, min_score, max_pairs, progress):
        group, other = groups[passages[row]], groups[passages[column]]
        if group is not other:
            group += other
            groups.update(dict.fromkeys(other, group))
            scores[group[0]] = score
    result = []
    for first, group in groups.items():
        if first == group[0]:
            lines = [place for passage in group for place in places[passage]]
            if len({place.path for place in lines}) > 1:
                result.append((scores[first], sorted(lines, key=lambda place: (place.path, place.start_line))))
    return sorted(result, key=lambda group: (-group[0], group[1][0].path, group[1][0].start_line))


def _home(passage: int, places: Sequence[NoteLines]) -> str | int:
    """Return the note of a passage: passages of one note are not compared. A passage of several notes has none."""
    paths = {place.path for place in places}
    return paths.pop() if len(paths) == 1 else passage


def _near_pairs(
    values: Sequence[bytes], homes: Sequence[str | int], min_score: float, max_pairs: int, progress: Progress
) -> list[tuple[float, int, int]]:
    """Return (cosine, position, position) of the `max_pairs` nearest pairs of float16 vectors, nearest first.

    Leaves out pairs with the same home and pairs with a cosine below `min_score`. Compares every vector with every
    other, in blocks: 10,000 vectors take a second, and the time grows with the square. Equal cosines are ordered by
    position. Calls `progress` before each block; it may raise to stop the work.
    """
    import numpy as np

    if len(values) < 2:
        return []
    matrix = to_matrix(values)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    numbers = {home: number for number, home in enumerate(dict.fromkeys(homes))}
    home_numbers = np.array([numbers[home] for home in homes])
    pairs = np.empty((0, 3))  # rows of (negative cosine, position, position)
    for start in range(0, len(values), _BLOCK_ROWS):
        progress("comparing passages", start, len(values))
        block = matrix[start : start + _BLOCK_ROWS] @ matrix[start:].T
        rows, columns = np.nonzero(block >= min_score)
        is_new = (columns > rows) & (home_numbers[start + rows] != home_numbers[start + columns])
        rows, columns = rows[is_new], columns[is_new]
        scores = np.round(np.minimum(block[rows, columns], 1.0).astype(float), 6)
        pairs = np.concatenate([pairs, np.column_stack([-scores, start + rows, start + columns])])
        pairs = pairs[np.lexsort((pairs[:, 2], pairs[:, 1], pairs[:, 0]))[:max_pairs]]
        if len(pairs) == max_pairs:
            min_score = max(min_score, -float(pairs[-1, 0]))  # a pair below the worst of these cannot be in the result
    return [(-float(score), int(row), int(column)) for score, row, column in pairs]
