"""Request bodies against the types of the vendors' own clients.

    bodies.py NAME <BODY

Ends in 0 if client NAME could have sent BODY; prints what is wrong with it otherwise.
"""

import json
import sys
import types
import typing

import typing_extensions


def unknown(given, known, where):
    """Members that the client has not heard of."""
    return [f"{where}.{name}: unknown" for name in given if name not in known]


def wrong(value, kind, where="body"):
    """What is wrong with `value` as a `kind`, at every depth; unknown members are."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (typing.Any, object):
        return []
    if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        return wrong(value, inner[0], where)
    if origin is typing.Literal:
        return [] if value in inner else [f"{where}: {value!r} is none of {inner}"]
    if origin in (typing.Union, types.UnionType):
        found = [wrong(value, one, where) for one in inner]
        # Of many kinds that it is not, the nearest has the most to say of its depths.
        return [] if [] in found else max(found, key=lambda all: max(one.count(".") for one in all))
    if typing_extensions.is_typeddict(kind):
        if not isinstance(value, dict):
            return [f"{where}: no object"]
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        missing = [f"{where}.{name}: missing" for name in kind.__required_keys__ if name not in value]
        known = [one for name in value if name in hints for one in wrong(value[name], hints[name], f"{where}.{name}")]
        return missing + unknown(value, hints, where) + known
    if inner and isinstance(value, dict):
        return [] if len(inner) == 2 else [f"{where}: no list"]
    if inner and isinstance(value, list):
        return [one for at, item in enumerate(value) for one in wrong(item, inner[0], f"{where}[{at}]")]
    if inner:
        return [f"{where}: {value!r} is no {kind}"]
    if kind is None or kind is type(None):
        return [] if value is None else [f"{where}: not null"]
    if kind is float:
        kind = (int, float)
    return [] if isinstance(value, kind) else [f"{where}: {value!r} is no {kind}"]


def typed(body, kind):
    found = wrong(body, kind)
    if found:
        raise SystemExit("\n".join(found))


def chat(body):
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    typed(body, CompletionCreateParamsStreaming)


def responses(body):
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    typed(body, ResponseCreateParamsStreaming)


def anthropic(body):
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    typed(body, MessageCreateParamsStreaming)


def gemini(body):
    from google.genai import types

    assert not unknown(body, ["contents", "tools", "systemInstruction", "generationConfig"], "body")
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", []):
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    if "systemInstruction" in body:
        types.Content.model_validate(body["systemInstruction"])


def ollama(body):
    from ollama._types import ChatRequest, Message

    # These the server knows and the client has no words for.
    given = {key: value for key, value in body.items() if key not in ["truncate", "shift"]}
    assert not unknown(given, ChatRequest.model_fields, "body")
    ChatRequest.model_validate(given)
    for message in given["messages"]:
        # The client takes an image in a shell of its own.
        images = [{"value": image} for image in message.get("images", [])]
        Message.model_validate({**message, "images": images})


globals()[sys.argv[1]](json.load(sys.stdin))
