"""Curation: an expert plays, a verifier scores, and the good episodes become a dataset."""
