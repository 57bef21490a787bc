"""Columns of a table: dates, missing values, expressions, shares, bags and notes."""
