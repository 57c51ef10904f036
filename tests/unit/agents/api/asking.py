"""Synchronous calls of a client's coroutines, and of agents of any kind."""

from contextlib import closing

from agents.answering import answering


def ask(client, *arguments, **settings):
    return client.run(client.ask(*arguments, **settings))


def complete(client, *arguments, **settings):
    return client.run(client.complete(*arguments, **settings))


def respond_to(agent, rows, observations):
    with closing(answering(agent)) as asked:
        return asked.respond(rows, observations)
