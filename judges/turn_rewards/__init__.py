"""What the trainer adds to the reward of single turns."""
