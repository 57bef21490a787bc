"""Data read in blocks: sources, the first pass, samples of rows, labels counted in cells."""
