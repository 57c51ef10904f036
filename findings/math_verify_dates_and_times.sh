#!/usr/bin/env bash
# math-verify compares dates by their year and clock times by their hour.
#
# Library: math-verify 0.9.0 (with latex2sympy2_extended 1.11.0, sympy 1.14.0), default settings.
# Guess:   text that is no number gives no parse, or "2024-05-06" becomes 2024 - 5 - 6 = 2013; either way, two different
#          dates of a year, or two times within an hour, do not verify against each other.
# Seen:    "2024-05-06" is read as 2024 and "3:15 pm" as 3, since reading stops at the leading zero and at the colon.
#          All dates with a zero-padded month in a year verify against each other, as do all times within an hour,
#          but "2024-12-31" is read as 2024 - 12 - 31 = 1981.
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
    ("2024-05-06", "2024-07-19"): True,
    ("2024-05-06", "2024-12-31"): False,
    ("1981", "2024-12-31"): True,
    ("3:15 pm", "3:45 am"): True,
    ("3:15 pm", "4:15 pm"): False,
}
seen = {(gold, answer): verify(parse(gold), parse(answer)) for gold, answer in expected}
for (gold, answer), is_right in seen.items():
    print(f"gold {gold!r:12} answer {answer!r:12} read as {parse(answer)}: {'right' if is_right else 'wrong'}")
assert seen == expected, "math-verify now reads dates or times differently"
PY
