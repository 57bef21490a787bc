"""The problem: bags, losses, noise, and what a solver returns."""
