"""What a method is, what it is asked, and what it returns."""
