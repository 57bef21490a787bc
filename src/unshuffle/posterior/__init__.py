"""The posterior of the shuffled model: one density, two ways to sample it."""
