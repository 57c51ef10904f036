"""Large procedural images, with questions whose answers are known exactly.

    seed ── draft of a question ──> things ── placed in a setting ──> scene ── drawn on demand ──> image

A scene is a description: a setting (street, desk, shelf, map), the seed of its scenery, and the position of
everything that a question may be about. Boxes, masks, and answers come from the description, never from the
pixels.
"""
