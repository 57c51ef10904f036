"""What a run says of itself: metrics, the console, TensorBoard, Weights & Biases, and how it was made."""
