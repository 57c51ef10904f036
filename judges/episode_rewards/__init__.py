"""The papers' episode rewards for question-answering worlds: Argos, ARM-Thinker, iVGR, and Mags-RL."""
