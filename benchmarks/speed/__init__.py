"""Speed and memory benchmarks on this machine, compared with peers and limits."""
