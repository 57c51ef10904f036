"""What the packages of OpenAI and Anthropic raise, which are made by one generator, as errors of ours."""

from __future__ import annotations

from collections.abc import Awaitable
from types import ModuleType
from typing import Any

from agents.api.error_messages import read_error
from agents.api.failures import (
    EndpointError,
    PermanentError,
    SilentError,
    TransientError,
    error_in_reply,
    error_of_status,
    no_connection,
    one_line,
)


async def sent(call: Awaitable[Any], package: ModuleType) -> Any:
    """Returns the reply of a call as JSON.

    Args:
        call: A call of the package that has begun.
        package: `openai` or `anthropic`.

    Raises:
        TransientError: If it may go well another time.
        PermanentError: If it will not.
    """
    try:
        reply = await call
        # What is no JSON by its header comes as text
        if not hasattr(reply, "to_dict"):
            raise TransientError(f"the body is no JSON: {one_line(str(reply), 80)}")
        return reply.to_dict(mode="json", warnings=False)
    except EndpointError:
        raise
    except package.APIStatusError as error:
        content = read_error(error.body, error.response.text)
        raise error_of_status(error.status_code, content, error.response.headers) from error
    except package.APITimeoutError as error:
        raise SilentError("no whole reply in time") from error
    except package.APIConnectionError as error:
        raise no_connection(error.__cause__ or error) from error
    except package.APIError as error:  # An error in the middle of a stream
        raise error_in_reply(read_error(error.body, error.message)) from error
    except getattr(package, "OpenAIError", getattr(package, "AnthropicError", ())) as error:
        raise PermanentError(f"cannot be asked: {one_line(str(error))}") from error
    except Exception as error:
        # While a body is read, errors come from the HTTP library and from whatever reads JSON
        raise TransientError(f"no readable reply: {type(error).__name__} {one_line(str(error))}") from error
