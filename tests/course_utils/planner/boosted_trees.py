"""Lines of boosted trees for the planner's table, grown by a library that the course goes without.

    python -m pip install scikit-learn==1.9.1
    python -m tests.course_utils.planner.boosted_trees
"""

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from course_utils.planner.truth.__main__ import TREES
from course_utils.planner.truth.baselines import features, held_out, seconds_at_peak
from course_utils.planner.truth.figures import write
from course_utils.planner.truth.measures import time_measures
from course_utils.records.sweeps import playbook_runs

SIZES = {"n_estimators": 300, "max_depth": 4, "learning_rate": 0.08, "min_samples_leaf": 5}


def main():
    runs = playbook_runs()
    at_peak, places = seconds_at_peak(runs), features(runs)
    mfu = np.log(at_peak / np.array([run.step_seconds for run in runs]))

    def predict(seen):
        trees = GradientBoostingRegressor(**SIZES, random_state=0)
        return at_peak / np.exp(trees.fit(places[seen], mfu[seen]).predict(places))

    seconds = {"boosted trees": list(held_out(runs, predict))}
    write(TREES, [line for each in time_measures(lambda: seconds) for line in each.lines()])
    made = "# made by python -m tests.course_utils.planner.boosted_trees, scikit-learn 1.9.1\n"
    TREES.write_text(made + TREES.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
