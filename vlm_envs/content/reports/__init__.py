"""Generated annual reports as PDF documents, and questions about them with known answers and known pages.

    seed ── contents ──> subjects ── composition ──> pages of blocks ── rendering ──> PDF
                              │                           │
                              └────── questions ──────────┘

A report is a value: everything that is printed follows from its recipe. It is rendered when somebody looks at it.
"""
