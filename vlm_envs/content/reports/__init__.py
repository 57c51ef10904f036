"""Generated annual reports as PDF documents, with questions whose answers and pages are known.

    seed ── contents ──> subjects ── composition ──> pages of blocks ── rendering ──> PDF
                              │                           │
                              └────── questions ──────────┘

A report is an immutable value: everything printed in it follows from its seed and settings. It is rendered on
demand.
"""
