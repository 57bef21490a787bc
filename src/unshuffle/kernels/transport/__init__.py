"""The log permanents of bags: entropic transport with a local correction, or exact.

Entropic transport is solved by Sinkhorn's (1967) scaling (Cuturi 2013) or by Newton steps in its
dual. Like the Bethe permanent (Vontobel 2013) it approximates the permanent by a convex problem
over doubly stochastic matrices. Tiny bags have exact permanents by dynamic programming.
"""
