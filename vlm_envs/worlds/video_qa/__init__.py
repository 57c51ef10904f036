"""VideoQA: answer a question about a video."""
