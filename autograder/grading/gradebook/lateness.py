"""What lateness costs: a rule for nbgrader, which knows due dates and extensions."""

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float

DAY_SECONDS = 24 * 60 * 60


class LateDays(LateSubmissionPlugin):  # type: ignore[misc]  # nbgrader has no types
    """A share of the points for every day begun: ``c.LateDays.share_per_day = 0.1``."""

    share_per_day = Float(0.1, help="of the points, for every day begun").tag(config=True)

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float:
        """Points that lateness takes, at most all of them."""
        days_begun = -(-total_seconds_late // DAY_SECONDS)
        return min(score, self.share_per_day * days_begun * score)
