"""Texts of reports and pages on the conditions under which shuffled regression works.

The figures of `LIMITS` are those of the real tables of `make corpus`.
"""

LIMITS = (
    "It works where bags differ. Each bag adds the equation of its means, and the distribution of "
    "labels inside the bag adds the rest. One bag determined almost no coefficient on 232 real "
    "tables. Where the linked regression has R² above .5, the sign was determined for 3 % of the "
    "coefficients with one bag, 20 % with four bags and 50 % with ten. Where R² is below .5, it "
    "was 0, 3 and 19 %. It fails where columns have the same distribution and bags are alike: no "
    "method can tell such columns apart. It also fails where noise drowns the signal, or where "
    "labels depend on something that no column measures. More bags, and more different ones, "
    "help most."
)

# The assumption of every fit of links of unknown quality.
LINKS_LIMITS = (
    "Wrong links are taken to be exchangeable inside blocks; links across blocks, or errors that "
    "depend on the label, are not covered."
)
