"""The commands: one module for each, except ``reproduce``, which `experiments` has."""
