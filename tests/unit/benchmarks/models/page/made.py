"""Who plays on the board that tests open, and where things are on its page."""

from urllib.parse import urlencode

from agents.agent import Response
from agents.oracle import OracleAgent

WORLDS = LAKE, SOKOBAN = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")
QUESTIONS = "VLM/ZoomQA-v0:max_objects=6,prompt_format=arm,side_px=700"
HOSTILE = '</script><img src=x onerror="alert(1)"><!-- &amp; \ud800 \u202e \u2028'
THOUGHTS = HOSTILE + "long " * 20_000
MODEL = "model"


class Flawed(OracleAgent):
    """An oracle behind an API: its provider fails on the first level, and the second one is met with nonsense."""

    def __init__(self) -> None:
        super().__init__(mistake_rate=0.3, seed=1)

    def start(self, worlds):
        super().start(worlds)
        self._num_said = 0

    def respond(self, rows, observations):
        return [self._flawed(response) for response in super().respond(rows, observations)]

    def _flawed(self, response):
        self._num_said += 1
        if self._num_said == 1:
            return Response(text="", stop_reason="error", error=f"overloaded {HOSTILE}")
        usage = {"prompt_tokens": 800.0, "completion_tokens": 40.0, "usd": 0.002, "seconds": 1.5}
        text = HOSTILE if self._num_said == 2 else response.text
        return Response(text=text, thoughts=THOUGHTS, usage=usage)


class Guessing(OracleAgent):
    """Answers at once, and wrongly."""

    def respond(self, rows, observations):
        return [Response(text="<think>At a glance.</think><answer>no such answer</answer>") for _ in rows]


def questioned():
    """Returns who plays on the board of questions, by name; one behind an address."""
    return {"compatible:zoomer@http://127.0.0.1:8799/v1": OracleAgent(), "guesser": Guessing()}


def of(agent, world=LAKE, **more):
    """Returns the address of an agent's episodes."""
    return "#" + urlencode({"label": f"{agent} · {world}", **more})
