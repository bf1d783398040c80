"""Lines of boosted trees for the planner's table, grown by a library that the course goes without.

python -m pip install scikit-learn==1.9.1
python -m tests.course_utils.planner.boosted_trees
"""

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from course_utils.planner.truth.__main__ import TREES
from course_utils.planner.truth.baselines import features, held_out, seconds_at_peak
from course_utils.planner.truth.figures import write
from course_utils.planner.truth.measured import playbook
from course_utils.planner.truth.measures import memory_measure, regret_measure, time_measures

SIZES = {"n_estimators": 300, "max_depth": 4, "learning_rate": 0.08, "min_samples_leaf": 5}


def grown(values):
    """What trees on all other sizes say of each row."""
    places = features(playbook())

    def predict(seen):
        trees = GradientBoostingRegressor(**SIZES, random_state=0)
        return trees.fit(places[seen], values[seen]).predict(places)

    return held_out(playbook(), predict)


def main():
    at_peak = seconds_at_peak(playbook())
    mfu = np.log(at_peak / np.array([run.step_seconds for run in playbook()]))
    seconds = {"boosted trees": list(at_peak / np.exp(grown(mfu)))}
    gib = np.exp(grown(np.log([run.first_rank_gib for run in playbook()])))
    measures = [
        *time_measures(seconds),
        regret_measure(seconds),
        memory_measure({"boosted trees": list(gib)}),
    ]
    write(TREES, [line for each in measures for line in each.lines()])
    made = "# made by python -m tests.course_utils.planner.boosted_trees, scikit-learn 1.9.1\n"
    TREES.write_text(made + TREES.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
