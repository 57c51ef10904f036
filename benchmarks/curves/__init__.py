"""Learning curves of runs, stages and all: condensed into small files, and drawn for the papers' pages."""
