"""Readers of the model's own text: sections, points and times, boxes, numbers and answers."""
