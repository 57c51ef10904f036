"""What an iteration learns from: who plays, in how many rounds, and what comes of it as a batch."""
