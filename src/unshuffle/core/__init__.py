"""The interface of methods, and the solution that they return."""
