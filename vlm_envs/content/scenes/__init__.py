"""Large pictures made by a program, with questions whose answers are known exactly.

    seed ── draft of a question ──> things ── placed in a setting ──> scene ── drawn when looked at ──> picture

A scene is a description: a setting (street, desk, shelf, map), the seed of its scenery, and every thing that a question
may be about, with its place. Boxes, masks and answers come from the description, never from the pixels.
"""
