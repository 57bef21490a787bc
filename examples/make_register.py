"""Write a register of persons with made-up incomes, and with codes, dates and ids."""

import csv
import sys
from datetime import date, timedelta

import numpy as np

N_DISTRICTS, N_PERSONS = 16, 20

rng = np.random.default_rng(4)
lines = []
for district in range(1, N_DISTRICTS + 1):
    mean_age, mean_school = rng.uniform(35, 55), rng.uniform(9, 14)
    for _ in range(N_PERSONS):
        age = float(np.clip(rng.normal(mean_age, 9), 20, 66))
        school = int(np.clip(rng.normal(mean_school, 2), 7, 18))
        sex = str(rng.choice(["female", "male"]))
        log_income = 2.6 + 0.006 * age + 0.05 * school + 0.06 * (sex == "male")
        income = 10 ** (log_income + 0.06 * rng.standard_normal())
        birth = date(2020, 1, 1) - timedelta(days=round(365.25 * age))
        known = 999 if rng.random() < 0.01 else school
        person = f"{len(lines) + 1:05d}"
        lines.append((person, f"D{district:02d}", birth, sex, known, round(income)))
with open(sys.argv[1] if len(sys.argv) > 1 else "register.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["person", "district", "birth", "sex", "school", "income"])
    writer.writerows(lines)
