"""Candidates of several retrievers -> one score a chunk. Pure.

Both retrievers' scores mean the same for every query (model.Candidate), so they are added as they are. Scaling each
list to its own best and worst did as well at ranking, but made the best hit of a hopeless query look like that of a
good one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from memsync.model import Candidate, NotePath

NOTE_BONUS = 0.05
"""What a note's second and third best chunks add to each of its chunks: a note about a thing comes before a mention."""


def fuse(
    keyword: Sequence[Candidate], vector: Sequence[Candidate], *, keyword_weight: float, contributed: int
) -> dict[int, float]:
    """Return a score for each chunk among the first `contributed` candidates of either list.

    Both lists are best first. `keyword` may be longer, so that chunks found by meaning have their keyword score too;
    beyond its end that is 0. A chunk that `vector` did not return gets its last score: it cannot have more. A list that
    is empty counts for nothing, and the other alone decides.
    """
    if not keyword or not vector:
        return {candidate.chunk_id: candidate.score for candidate in (*keyword[:contributed], *vector[:contributed])}
    words = {candidate.chunk_id: candidate.score for candidate in keyword}
    cosines = {candidate.chunk_id: candidate.score for candidate in vector[:contributed]}
    farthest = vector[: len(cosines)][-1].score
    chunk_ids = dict.fromkeys([candidate.chunk_id for candidate in keyword[:contributed]])
    chunk_ids.update(dict.fromkeys(cosines))
    return {
        chunk_id: keyword_weight * words.get(chunk_id, 0.0) + (1.0 - keyword_weight) * cosines.get(chunk_id, farthest)
        for chunk_id in chunk_ids
    }


def add_note_bonus(scores: Mapping[int, float], paths: Mapping[int, NotePath]) -> dict[int, float]:
    """Return the scores, each with its note's bonus; a chunk without a path (it has just gone) is left out."""
    by_note: dict[NotePath, list[float]] = defaultdict(list)
    for chunk_id, path in paths.items():
        by_note[path].append(scores[chunk_id])
    bonus = {path: NOTE_BONUS * sum(sorted(own, reverse=True)[1:3]) for path, own in by_note.items()}
    return {chunk_id: scores[chunk_id] + bonus[path] for chunk_id, path in paths.items()}
