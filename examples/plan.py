"""Plan the pools before pipetting: which samples go into which run, and what that will tell.

A laboratory has 96 samples whose three features are known, and can afford a few runs; inside a run
nobody will know which reading belongs to which sample. The runs are designed so that their means
differ in every direction, each donor's samples staying in one run, and experiments with such and
with random runs are simulated on these very samples. The same from the command line:

    unshuffle plan samples.csv --runs 4,8 --noise 0.4 --label-sd 1.5 --together donor --out plan.csv

Run: python examples/plan.py
"""

import numpy as np

from unshuffle.design import assess_bags, plan_runs

N, TRIALS = 96, 6


def main(method="auto"):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(N, 3))
    donor = np.arange(N) // 2
    how = {"noise": 0.4, "label_sd": 1.5, "names": ["dose", "age", "size"], "trials": TRIALS}
    plan = plan_runs(X, [4, 8], together=donor, method=method, rng=0, **how)
    print(plan)
    print("sizes of the 8 runs:", plan.assignments[8].sizes.tolist())
    # The pools of an earlier experiment: a plate at a time.
    found = assess_bags(X, np.arange(N) // 24, method=method, rng=0, **how)
    print(found.verdict[0])
    return plan


if __name__ == "__main__":
    main()
