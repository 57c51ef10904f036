"""Who plays in a curation: an agent by its name, which is shown places if it is to be."""

from __future__ import annotations

from dataclasses import replace

from agents.agent import Agent
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent, setting_names
from training.config.curation.curate import CurateConfig
from training.data.curation.pointed_teacher import PointedTeacher
from training.data.curation.proposals import ModelProposals, exact_proposals


def make_teacher(config: CurateConfig) -> Agent:
    """Returns who plays, with those of the settings that such an agent has, and shown places if it is to be."""
    teacher = _agent(config.expert, config)
    pointing = config.pointing
    if pointing.points == "none":
        return teacher
    if pointing.points == "exact":
        return PointedTeacher(teacher, exact_proposals)
    assert pointing.proposer is not None and pointing.pointer is not None, "they were required"
    proposer, pointer = (
        _agent(name, replace(config, sampling=replace(config.sampling, temperature=0.0)))
        for name in (pointing.proposer, pointing.pointer)
    )
    return PointedTeacher(teacher, ModelProposals(proposer, pointer))


def _agent(name: str, config: CurateConfig) -> Agent:
    """Returns an agent with those of the settings that it has; an endpoint keeps its own where nothing was said."""
    sampling = config.sampling
    offered = {"mistake_rate": config.mistake_rate, "sampling": sampling, "seed": config.seed, "device": config.device}
    known, usual = setting_names(name), SamplingConfig()
    said = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}
    as_usual = {"temperature": usual.temperature, "top_p": usual.top_p, "max_tokens": usual.max_new_tokens}
    offered |= {key: value for key, value in said.items() if value != as_usual[key]}
    return make_agent(name, **{key: value for key, value in offered.items() if key in known})
