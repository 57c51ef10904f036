"""What was played, on disk: episodes and metrics as JSON lines and pictures, statistics, and the report."""
