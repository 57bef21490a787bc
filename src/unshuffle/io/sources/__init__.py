"""Files as sources of blocks: rows are read in passes, never all at once."""
