"""Measures of a board: success, cost, comparisons, perception gaps, and exported tables."""
