"""Numbers of differential evolution moves (DE-MC; ter Braak 2006), whatever is moved by them."""

# The length of a move that is best for Gaussians, over √(2d); the share of moves that are a whole
# difference, which leads from mode to mode; and the jitter that makes moves irreducible, as a share
# of the spread.
STEP, WHOLE, JITTER = 2.38, 0.1, 1e-3
