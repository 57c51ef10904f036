"""What judges say of a board's episodes."""
