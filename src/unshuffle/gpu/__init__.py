"""Graphics cards as sources of blocks: rows and histograms on the card, all else on the host."""
