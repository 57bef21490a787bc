"""Pictures of fits, drawn with matplotlib."""
