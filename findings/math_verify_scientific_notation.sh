#!/usr/bin/env bash
# math-verify drops the exponent of a number in scientific notation.
#
# Library: math-verify 0.9.0 (with latex2sympy2_extended 1.11.0, sympy 1.14.0), default settings.
# Guess:   "1.5e6" is read as 1,500,000, so it verifies against "1500000" and not against "1.5".
# Seen:    parse("1.5e6") is 1.5. It verifies against "1.5" and not against "1500000"; "2.4e-3" verifies against "2.4".
#          A reward built on it pays for an answer that is wrong by the whole power of ten.
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
    ("1500000", "1.5e6"): False,
    ("1.5", "1.5e6"): True,
    ("1.5e6", "1.5"): True,
    ("0.0024", "2.4e-3"): False,
    ("2.4", "2.4e-3"): True,
}
seen = {(gold, answer): verify(parse(gold), parse(answer)) for gold, answer in expected}
for (gold, answer), is_right in seen.items():
    print(f"gold {gold!r:11} answer {answer!r:9} read as {parse(answer)}: {'right' if is_right else 'wrong'}")
assert seen == expected, "math-verify now reads scientific notation differently"
PY
