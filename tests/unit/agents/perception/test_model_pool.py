"""How questions are shared out over actors, with a Ray that only seems to be one: `make test-ray` has a real one."""

import time
from collections import deque
from types import SimpleNamespace

import pytest

from agents.api.failures import Unavailable
from agents.perception import model_pool
from agents.perception.model_pool import ModelActor, ModelPool, lacking_where_ray_places
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorkerError


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(f"a traceback\n{cause}")
        self.cause = cause


class Killed(Exception):
    """What ends the process it is raised in."""


class Ref(SimpleNamespace):
    """What a call comes to: a value, an error, or nothing for ever."""

    __hash__ = object.__hash__


class Actor:
    """An actor whose calls are carried out at once."""

    def __init__(self, ray):
        self._ray, self._own, self.is_dead = ray, ModelActor(), False

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *arguments: self._call(name, arguments))

    def _call(self, name, arguments):
        if self.is_dead:
            return Ref(error=RayError("dead"))
        try:
            return Ref(value="here" if name == "host" else getattr(self._own, name)(*arguments), error=None)
        except TimeoutError:
            return Ref(is_open=True)
        except Killed:
            self.is_dead = True
            return Ref(error=RayError("dead"))
        except Exception as error:
            return Ref(error=RayTaskError(error))


class Ray:
    """As much of Ray as a pool uses."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self):
        self.actors, self.options, self.gpus = [], [], 0.0

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 2.0, "GPU": self.gpus}

    def remote(self, actor_type):
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=lambda: self._actor(options)))

    def _actor(self, options):
        self.options.append(options)
        self.actors.append(Actor(self))
        return self.actors[-1]

    def wait(self, refs, *, num_returns, timeout):
        there = [ref for ref in refs if not hasattr(ref, "is_open")]
        if not there:
            time.sleep(timeout)
        return there[:num_returns], []

    def get(self, ref, *, timeout):
        if ref.error is not None:
            raise ref.error
        return ref.value

    def kill(self, actor):
        actor.is_dead = True


class Script:
    """Models that note what they are asked together, and fail as often as they are told to."""

    def __init__(self):
        self.units, self.faults = [], {}

    def upper(self, questions):
        self.units.append(questions)
        for question in questions:
            faults = self.faults.get(question, deque())
            if faults:
                raise faults.popleft()
        return [question.upper() for question in questions]


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(model_pool, "connected_ray", lambda: fake)
    return fake


@pytest.fixture
def script():
    return Script()


UNITS = [[0, 2], [1, 3], [4]]


def pool(script, num_workers=2, **settings):
    return ModelPool(lambda: script, num_workers=num_workers, timeout_s=0.01, **settings)


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_units_are_the_callers_however_many_share_them(ray, script, num_workers):
    assert pool(script, num_workers).ask("upper", "abcde", UNITS) == list("ABCDE")
    assert script.units == [["a", "c"], ["b", "d"], ["e"]]
    assert len(ray.actors) == num_workers


@pytest.mark.parametrize("fault", [Killed(), TimeoutError(), ValueError("bad")], ids=["died", "hung", "raised"])
def test_a_unit_that_fails_is_asked_again_one_by_one_of_another_process(ray, script, fault, caplog):
    models = pool(script)
    script.faults = {"b": deque([fault])}
    assert models.ask("upper", "abcde", UNITS) == list("ABCDE")
    assert script.units == [["a", "c"], ["b", "d"], ["e"], ["b"], ["d"]]
    assert len(ray.actors) == 3 and sum(actor.is_dead for actor in ray.actors) == 1
    assert models.metrics() == {"questions": 5, "unanswered": 0, "lost_workers": 1}
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith("Ray worker 1 of the models at here")


def test_what_fails_twice_has_no_answer_and_says_why(ray, script, caplog):
    models = pool(script)
    script.faults = {"b": deque([ValueError("bad"), ValueError("still bad")])}
    answers = models.ask("upper", "abcde", UNITS)
    assert answers[:1] + answers[2:] == list("ACDE")
    assert isinstance(answers[1], Unavailable) and answers[1].reason.endswith("raised ValueError: still bad")
    assert models.metrics()["unanswered"] == 1
    assert "1 of 5 questions to the models have no answer. The last reason: Ray worker" in caplog.text


def test_failures_one_after_another_end_a_batch_and_the_next_begins_anew(ray, script):
    models = pool(script, 1)
    script.faults = {letter: deque([TimeoutError()] * 9) for letter in "abcdefgh"}
    answers = models.ask("upper", "abcdefgh", [[0, 1], [2, 3], [4, 5], [6, 7]])
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert len(script.units) == 4, "and not all twelve of them"
    script.faults = {}
    assert models.ask("upper", "abcdefgh", [[0, 1], [2, 3], [4, 5], [6, 7]]) == list("ABCDEFGH")


def test_answers_in_between_keep_a_batch_going(ray, script):
    models = pool(script, 1)
    script.faults = {letter: deque([Killed()] * 2) for letter in "acegikmoq"}
    letters = "abcdefghijklmnopqr"
    answers = models.ask("upper", letters, [[index] for index in range(len(letters))])
    assert [each for each in answers if isinstance(each, str)] == list("BDFHJLNPR")


def test_actors_that_no_longer_load_end_in_one_error_once_all_are_gone(ray, script, monkeypatch):
    models = pool(script)

    def no_weights(self, load):
        raise FileNotFoundError("No checkpoint in /models")

    monkeypatch.setattr(ModelActor, "load", no_weights)
    ray.actors[0].is_dead = True
    assert models.ask("upper", "abcde", UNITS) == list("ABCDE"), "one is left"
    ray.actors[1].is_dead = True
    with pytest.raises(WorkerError, match=r"No worker .* could not load its models: FileNotFoundError: .*--resume\."):
        models.ask("upper", "abcde", UNITS)


def test_models_that_cannot_be_loaded_are_told_at_the_start_and_nothing_is_left(ray):
    def load():
        raise ImportError("no module named own")

    with pytest.raises(EngineUnavailableError, match=r"worker 0 .* at here could not load .*: ImportError: no module"):
        ModelPool(load, num_workers=3)
    assert all(actor.is_dead for actor in ray.actors)


def test_an_answer_that_came_in_time_and_is_taken_late_counts(ray, script):
    models = pool(script, 2)
    for actor in list(ray.actors):
        actor.is_dead = True
    models.ask("upper", "a", [[0]])  # has both started again, and waits for one of them
    for worker in models._workers:
        worker.deadline = 0.0
    assert models.ask("upper", "abcde", UNITS) == list("ABCDE")
    assert models.metrics()["lost_workers"] == 2


def test_ctrl_c_leaves_no_answer_of_before_to_be_taken_for_another(ray, script, monkeypatch):
    models = pool(script, 1)
    wait = ray.wait

    def interrupted(refs, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        models.ask("upper", "ab", [[0], [1]])
    monkeypatch.setattr(ray, "wait", wait)
    assert models.ask("upper", "xy", [[0], [1]]) == ["X", "Y"]


def test_there_are_as_many_actors_as_the_clusters_gpus_have_places_for(ray, script):
    ray.gpus = 2.0
    pool(script, None, num_gpus=0.5)
    assert [options["num_gpus"] for options in ray.options] == [0.5] * 4
    assert {options["num_cpus"] for options in ray.options} == {0}
    ray.options.clear()
    pool(script, None)
    assert len(ray.options) == 1 and "num_gpus" not in ray.options[0], "a place is found beside any number of others"
    ray.gpus = 0.0
    with pytest.raises(ConfigError, match="no GPU for a worker that needs 1"):
        pool(script, None, num_gpus=1.0)
    with pytest.raises(ConfigError, match=r"no GPU for a worker that needs 0\.5"):
        lacking_where_ray_places({}, num_gpus=0.5)
