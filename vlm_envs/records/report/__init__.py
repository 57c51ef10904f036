"""Reports of training runs: one HTML file with curves and episodes to browse, and a picture of the curves."""

from vlm_envs.records.report.page import build_report

__all__ = ["build_report"]
