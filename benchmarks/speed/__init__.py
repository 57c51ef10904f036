"""Speed and memory of the parts on this machine, compared with peers and limits."""
