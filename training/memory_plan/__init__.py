"""`python -m training plan`: whether a run fits its GPUs, and what it costs, from a checkpoint's config.json."""
