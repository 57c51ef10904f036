"""Supervised learning: the cold start, fine-tuning on data sets, and the training of an upscaler."""
