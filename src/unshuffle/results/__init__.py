"""What a fit says: numbers, words, pictures and pages."""
