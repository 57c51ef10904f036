"""Claims: what reinforcement learning adds to imitation of the same demonstrations, at the same compute."""
