#!/usr/bin/env bash
# math-verify reads no number that touches the opening tag of <answer>, a bracket, a quotation mark, or a backtick.
#
# Library: math-verify 0.9.0 (with latex2sympy2_extended 1.11.0, sympy 1.14.0), default settings.
# Guess:   a number is found wherever it stands in the text, so "<answer>7</answer>", "(7)" and "`7`" are all 7, as
#          "**7**" is.
# Seen:    parse() returns [] for them, and verify() returns False without an error or a warning; "<answer> 7 </answer>",
#          "7</answer>" and "**7**" are read. A reward that passes whole responses to it pays by the blanks around a number.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  math-verify==0.9.0 latex2sympy2_extended==1.11.0 sympy==1.14.0 antlr4-python3-runtime==4.13.2
"$folder/venv/bin/python" - <<'PY'
from math_verify import parse, verify

expected = {
    "<answer>7</answer>": False,
    "<answer> 7 </answer>": True,
    "7</answer>": True,
    "(7)": False,
    '"7"': False,
    "`7`": False,
    "**7**": True,
}
seen = {answer: verify(parse("7"), parse(answer)) for answer in expected}
for answer, is_right in seen.items():
    print(f"answer {answer!r:22} read as {parse(answer)}: {'right' if is_right else 'wrong'}")
assert seen == expected, "math-verify now finds numbers in markup differently"
PY
