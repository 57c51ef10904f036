"""Who measures: speed against peers and limits, ablations."""
