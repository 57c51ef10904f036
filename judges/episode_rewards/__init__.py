"""The papers' rewards of whole episodes of question-answering worlds: Argos, ARM-Thinker, iVGR and Mags-RL."""
