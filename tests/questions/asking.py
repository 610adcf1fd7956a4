"""What the tests ask of a scorer, as plain rows."""

from collections.abc import Sequence
from typing import Any

from swarmd.clients.scorer import Address, Questions, ScoreItem, Scores
from swarmd.questions.service import ScorerService


def questions(service: ScorerService, rows: Sequence[Sequence[Any]]) -> Questions:
    return service.questions([Address(*row) for row in rows])


def score(service: ScorerService, rows: Sequence[Sequence[Any]], deadline_s: float) -> Scores:
    return service.score([ScoreItem(*row) for row in rows], deadline_s)


def score_external(
    service: ScorerService, rows: Sequence[Sequence[Any]], deadline_s: float, held_s_max: float
) -> Scores:
    return service.score_external([ScoreItem(*row) for row in rows], deadline_s, held_s_max)
