"""The commands of boards, one a file: `python -m benchmarks run | replay | power | forecast | suites`."""
