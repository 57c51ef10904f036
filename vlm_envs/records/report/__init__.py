"""Reports of runs: one HTML file with curves and episodes to browse, and a picture of the curves."""
