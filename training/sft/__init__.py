"""Supervised fine-tuning of a checkpoint on datasets of conversations with images."""
