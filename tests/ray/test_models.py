"""Models in actors of a local cluster: killed, hanging, missing, and what their answers are."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
import ray

from agents.api.failures import Unavailable
from agents.perception.model_pool import ModelPool
from tests.ray.processes import model_actors, wait_until
from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.vector.ray_workers import connected_ray


@dataclass
class Scripted:
    """Models that double numbers, and do what questions tell them."""

    directory: Path

    def doubled(self, questions):
        return [self.answer(question) for question in questions]

    def answer(self, question):
        if not isinstance(question, str):
            return 2 * question
        order, _, name = question.partition(" ")
        happened = self.directory / f"{order} {name}"
        if name != "always" and happened.exists():
            return "asked again"
        happened.write_text(str(os.getpid()))
        if order == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if order == "hang":
            time.sleep(1000)
        if order == "wait":
            time.sleep(3)
        raise ValueError(f"cannot {order}")


def load(directory, deaths=0):
    """Loads `Scripted`, in a process that dies as often as it is told before that."""
    for number in range(deaths):
        marker = directory / f"death {number}"
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if (directory / "gone").exists():
        raise FileNotFoundError(f"No checkpoint in {directory}")
    return Scripted(directory)


@pytest.fixture
def pool(tmp_path):
    """Makes pools, which are closed afterwards."""
    made = []

    def make(num_workers=1, timeout_s=30.0, **settings):
        made.append(ModelPool(partial(load, tmp_path, **settings), num_workers=num_workers, timeout_s=timeout_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


def in_pairs(questions):
    return [list(range(len(questions)))[start : start + 2] for start in range(0, len(questions), 2)]


def doubled(pool, *questions):
    return pool.ask("doubled", questions, in_pairs(questions))


@pytest.mark.parametrize("num_workers", [1, 3])
def test_answers_come_in_the_questions_order_from_all_actors(pool, num_workers):
    models = pool(num_workers)
    assert len(model_actors(psutil.Process())) == num_workers
    assert doubled(models, *range(11)) == [2 * number for number in range(11)]
    assert doubled(models) == []
    assert models.metrics() == {"questions": 11, "unanswered": 0, "lost_workers": 0}


def test_units_are_under_way_side_by_side(pool):
    models = pool(2)
    started = time.monotonic()
    doubled(models, "wait one", 1, "wait two", 2)  # 3 s each, after which both raise and are asked again
    assert time.monotonic() - started < 60
    assert models.metrics()["lost_workers"] == 2


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("order", ["die", "hang", "raise"])
def test_an_actor_that_fails_in_an_answer_is_replaced_and_its_questions_are_asked_again(pool, num_workers, order):
    models = pool(num_workers, timeout_s=3.0)
    assert doubled(models, 1, f"{order} once", 3, 4, 5) == [2, "asked again", 6, 8, 10]
    assert models.metrics() == {"questions": 5, "unanswered": 0, "lost_workers": 1}
    assert wait_until(lambda: len(model_actors(psutil.Process())) == num_workers)


@pytest.mark.parametrize("order", ["die", "hang", "raise"])
def test_a_question_that_no_actor_survives_costs_its_own_answer_alone(pool, order, caplog):
    models = pool(2, timeout_s=3.0)
    answers = doubled(models, 1, f"{order} always", 3, 4)
    assert [answers[0], *answers[2:]] == [2, 6, 8], "not even of the one it was asked beside"
    assert isinstance(answers[1], Unavailable)
    assert {"die": "died", "hang": "hung", "raise": "ValueError: cannot raise"}[order] in answers[1].reason
    assert models.metrics() == {"questions": 4, "unanswered": 1, "lost_workers": 2}
    assert "1 of 4 questions to the models have no answer" in caplog.text
    assert doubled(models, 1, 2) == [2, 4], "the next batch"


def test_actors_that_are_killed_between_batches_are_replaced(pool):
    models = pool(2)
    for actor in model_actors(psutil.Process()):
        os.kill(actor.pid, signal.SIGKILL)
    assert doubled(models, 1, 2, 3, 4) == [2, 4, 6, 8]
    assert models.metrics()["lost_workers"] == 2


def test_an_actor_that_is_killed_at_its_start_is_started_again_but_not_for_ever(pool):
    assert doubled(pool(deaths=2), 1) == [2]


def test_an_actor_that_dies_at_every_start_is_an_error(pool):
    with pytest.raises(WorkerError, match=r"Ray worker \d of the models.* died"):
        pool(deaths=9)
    assert wait_until(lambda: not model_actors(psutil.Process()))


def test_weights_that_an_actor_lacks_are_told_at_the_start_with_its_machine(pool, tmp_path):
    (tmp_path / "gone").touch()
    told = r"worker \d of .* at [\d.]+ could not load its models: FileNotFoundError: No checkpoint in"
    with pytest.raises(EngineUnavailableError, match=told):
        pool(2)
    assert wait_until(lambda: not model_actors(psutil.Process()))


def test_when_no_actor_can_be_had_any_more_it_stops_and_may_be_gone_on_with(pool, tmp_path):
    models = pool(2)
    (tmp_path / "gone").touch()
    for actor in model_actors(psutil.Process()):
        os.kill(actor.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"No worker .*No checkpoint.*--resume"):
        doubled(models, 1, 2, 3)
    (tmp_path / "gone").unlink()
    assert doubled(models, 1, 2, 3) == [2, 4, 6]


def test_one_actor_is_enough_to_go_on(pool, tmp_path):
    models = pool(2)
    (tmp_path / "gone").touch()
    os.kill(model_actors(psutil.Process())[0].pid, signal.SIGKILL)
    assert doubled(models, *range(8)) == [2 * number for number in range(8)]


def test_actors_that_all_hang_cost_a_batch_a_few_timeouts(pool):
    models = pool(timeout_s=1.0)
    started = time.monotonic()
    answers = doubled(models, *["hang always"] * 40)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert models.metrics()["lost_workers"] == 4
    assert time.monotonic() - started < 60
    assert doubled(models, 1) == [2]


def test_closing_ends_what_another_thread_asks(pool):
    models, raised = pool(), []

    def ask():
        try:
            doubled(models, "hang always")
        except WorkerError as error:
            raised.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1.0)
    models.close()
    thread.join(20.0)
    assert raised == ["The workers of the models were stopped while answering."]
    assert wait_until(lambda: not model_actors(psutil.Process()))
    assert doubled(models, 1) == [2], "whoever asks later starts them anew"


@pytest.mark.parametrize("is_in_another", [False, True])
def test_models_go_on_in_another_cluster_when_theirs_is_left(pool, is_in_another):
    models = pool(2)
    ray.shutdown()
    if is_in_another:  # as worlds may be
        connected_ray()
    assert doubled(models, 1, 2, 3) == [2, 4, 6]
