"""The commands for boards: `python -m benchmarks run | page | replay | export | merge | power | evaluate | ...`."""
