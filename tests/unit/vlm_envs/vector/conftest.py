"""The kinds of workers that tests run over: the local ones, or what `--workers` names."""

import pytest

from vlm_envs.vector.vector_world import LOCAL_KINDS

KINDS = {"kind": LOCAL_KINDS, "remote_kind": ("thread", "process"), "mortal_kind": ("process",)}
"""By what tests ask for: any workers, those that are sent things, those that can be killed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    told = metafunc.config.getoption("--workers")
    for name in KINDS.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, (told,) if told else KINDS[name])
