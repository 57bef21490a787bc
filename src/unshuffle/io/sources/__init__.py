"""Files as sources of blocks."""
