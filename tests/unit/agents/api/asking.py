"""Synchronous calls of a client's coroutines."""


def ask(client, *arguments, **settings):
    return client.run(client.ask(*arguments, **settings))


def complete(client, *arguments, **settings):
    return client.run(client.complete(*arguments, **settings))
