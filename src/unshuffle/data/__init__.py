"""The data of a fit: bags of rows and labels, pairings, links, statistics."""
