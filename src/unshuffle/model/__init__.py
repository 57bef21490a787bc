"""The model of shuffled labels: parameters, prior, likelihood of bag means and inside bags."""
