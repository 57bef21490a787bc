"""When regression on shuffled labels works, in the words of README, pages and reports.

The figures of `LIMITS` are those of the real tables of `make corpus`; whoever measures anew changes
them here, and a test asks whether README says the same.
"""

LIMITS = (
    "It works where bags differ: every bag adds at least the equation of its means, and what the "
    "labels look like inside a bag adds the rest. One bag hardly ever identifies the weights of a "
    "real table, four bags do in one of nine, ten in one of four; the sign of a weight is known "
    "in 3, 27 and 62 %. It does not work where columns have the same law and the bags are alike "
    "(no method can then tell one column from another), where noise drowns the signal, or where "
    "labels depend on what no column says. Dividing the same samples into more, and more "
    "different, bags helps most."
)

# Until the model of wrong links is calibrated on real tables, whoever uses it is told this.
LINKS_LIMITS = (
    "95 % intervals of fits with wrong links covered about 70 % of the coefficients on 140 real "
    "tables: take them as too narrow."
)
