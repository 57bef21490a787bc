"""What an estimator minimises: losses, noise, penalties, and the problem that joins them."""
