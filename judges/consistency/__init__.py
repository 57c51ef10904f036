"""Whether two thoughts agree, by their words."""
