"""The papers' rewards of whole episodes of worlds that ask: Argos, ARM-Thinker, iVGR and Mags-RL."""
