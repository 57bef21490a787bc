"""Graphics cards: rows lie there, histograms are filled there, and all else stays on the host."""
