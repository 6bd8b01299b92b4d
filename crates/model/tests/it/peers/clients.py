"""The vendors' own clients against the rehearsal server: streaming and not, calls and their results, errors.

    clients.py NAME URL KEY

Prints what client NAME made of it as one JSON object. Every object that a client builds is checked against the client's
own types as well, since most clients build them from whatever comes.
"""

import json
import sys

SYSTEM = "You are a test."
READ = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LIST = {"type": "object", "properties": {}}
TOOLS = [("read_file", "Reads a file.", READ), ("list", "Lists.", LIST)]
FAULTS = ["fault 400", "fault 401", "fault 429", "fault 503", "fault 529"]


def strict(made):
    """`made`, built anew with all that its type demands."""
    type(made).model_validate(made.to_dict())
    return made


def told(error):
    """What a client says of a failure."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return [type(error).__name__, status, "scripted" in str(error)]


def attempt(ask):
    try:
        ask()
    except Exception as error:  # What it is called is what is asked for.
        return told(error)
    return None


class Chat:
    def __init__(self, url, key):
        import openai

        self.client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
        self.tools = [
            {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}
            for name, words, schema in TOOLS
        ]

    def begin(self, words):
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": words}]

    def whole(self, messages):
        return strict(self.client.chat.completions.create(model="m", messages=messages, tools=self.tools))

    def stream(self, messages):
        options = {"include_usage": True}
        for chunk in self.client.chat.completions.create(
            model="m", messages=messages, tools=self.tools, stream=True, stream_options=options
        ):
            strict(chunk)
        with self.client.chat.completions.stream(
            model="m", messages=messages, tools=self.tools, stream_options=options
        ) as stream:
            # `get_final_completion` refuses an answer that was cut off.
            return stream.until_done().current_completion_snapshot

    def read(self, made):
        message = made.choices[0].message
        calls = [[c.id, c.function.name, json.loads(c.function.arguments)] for c in message.tool_calls or []]
        usage = made.usage
        return {
            "text": message.content or "",
            "thought": getattr(message, "reasoning_content", None),
            "calls": calls,
            "stop": made.choices[0].finish_reason,
            "usage": [usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens],
        }

    def answered(self, messages, made):
        message = made.choices[0].message
        results = [{"role": "tool", "tool_call_id": c.id, "content": "an apple"} for c in message.tool_calls]
        return messages + [message.to_dict()] + results


class Responses(Chat):
    def __init__(self, url, key):
        super().__init__(url, key)
        self.tools = [
            {"type": "function", "name": name, "description": words, "parameters": schema, "strict": False}
            for name, words, schema in TOOLS
        ]

    def whole(self, messages):
        return strict(self.client.responses.create(model="m", input=messages, tools=self.tools))

    def stream(self, messages):
        for event in self.client.responses.create(model="m", input=messages, tools=self.tools, stream=True):
            strict(event)
        with self.client.responses.stream(model="m", input=messages, tools=self.tools) as stream:
            # `get_final_response` knows of no answer that was cut off.
            for event in stream:
                if event.type in ["response.completed", "response.incomplete"]:
                    return event.response
        raise RuntimeError("the stream ended without an end")

    def read(self, made):
        calls = [o for o in made.output if o.type == "function_call"]
        thoughts = [part.text for o in made.output if o.type == "reasoning" for part in o.summary]
        usage = made.usage
        return {
            "text": made.output_text,
            "thought": "".join(thoughts) or None,
            "calls": [[c.call_id, c.name, json.loads(c.arguments)] for c in calls],
            "stop": [made.status, made.incomplete_details and made.incomplete_details.reason],
            "usage": [usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens],
        }

    def answered(self, messages, made):
        calls = [o for o in made.output if o.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "an apple"} for c in calls]
        return messages + [o.to_dict() for o in made.output] + results


class Anthropic:
    def __init__(self, url, key):
        import anthropic

        self.client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
        self.tools = [
            {"name": name, "description": words, "input_schema": schema} for name, words, schema in TOOLS
        ]

    def begin(self, words):
        return [{"role": "user", "content": words}]

    def request(self, messages):
        return {"model": "m", "max_tokens": 100, "system": SYSTEM, "messages": messages, "tools": self.tools}

    def whole(self, messages):
        return strict(self.client.messages.create(**self.request(messages)))

    def stream(self, messages):
        for event in self.client.messages.create(**self.request(messages), stream=True):
            strict(event)
        with self.client.messages.stream(**self.request(messages)) as stream:
            return stream.get_final_message()

    def read(self, made):
        usage = made.usage
        return {
            "text": "".join(block.text for block in made.content if block.type == "text"),
            "thought": "".join(b.thinking for b in made.content if b.type == "thinking") or None,
            "calls": [[b.id, b.name, b.input] for b in made.content if b.type == "tool_use"],
            "stop": made.stop_reason,
            "usage": [usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens],
        }

    def answered(self, messages, made):
        calls = [block for block in made.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": "an apple"} for c in calls]
        content = [block.to_dict() for block in made.content]
        return messages + [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


class Gemini:
    def __init__(self, url, key):
        from google import genai

        self.types = genai.types
        self.client = genai.Client(api_key=key, http_options={"base_url": url})
        tool = self.types.Tool(
            function_declarations=[
                {"name": name, "description": words, "parameters_json_schema": schema}
                for name, words, schema in TOOLS
            ]
        )
        self.config = self.types.GenerateContentConfig(
            system_instruction=SYSTEM, tools=[tool], automatic_function_calling={"disable": True}
        )

    def begin(self, words):
        return [self.types.Content(role="user", parts=[self.types.Part(text=words)])]

    def whole(self, messages):
        return self.client.models.generate_content(model="m", contents=messages, config=self.config)

    def stream(self, messages):
        parts, last = [], None
        for last in self.client.models.generate_content_stream(model="m", contents=messages, config=self.config):
            parts += last.candidates[0].content.parts
        last.candidates[0].content.parts = parts
        return last

    def read(self, made):
        parts = made.candidates[0].content.parts
        usage = made.usage_metadata
        return {
            "text": "".join(p.text or "" for p in parts if not p.thought),
            "thought": "".join(p.text or "" for p in parts if p.thought) or None,
            "calls": [[p.function_call.id, p.function_call.name, p.function_call.args] for p in parts if p.function_call],
            "stop": made.candidates[0].finish_reason.name,
            "usage": [usage.prompt_token_count, usage.candidates_token_count, usage.cached_content_token_count],
        }

    def answered(self, messages, made):
        content = made.candidates[0].content
        results = [
            self.types.Part(function_response={"id": p.function_call.id, "name": p.function_call.name, "response": {"output": "an apple"}})
            for p in content.parts
            if p.function_call
        ]
        return messages + [content, self.types.Content(role="user", parts=results)]


class Ollama:
    def __init__(self, url, key):
        import ollama

        self.client = ollama.Client(host=url, headers={"authorization": "Bearer " + key})
        self.tools = [
            {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}
            for name, words, schema in TOOLS
        ]

    def begin(self, words):
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": words}]

    def whole(self, messages):
        return self.client.chat(model="m", messages=messages, tools=self.tools)

    def stream(self, messages):
        text, thought, calls, last = "", "", [], None
        for last in self.client.chat(model="m", messages=messages, tools=self.tools, stream=True):
            text += last.message.content or ""
            thought += last.message.thinking or ""
            calls += last.message.tool_calls or []
        last.message.content, last.message.thinking, last.message.tool_calls = text, thought or None, calls
        return last

    def read(self, made):
        return {
            "text": made.message.content,
            "thought": made.message.thinking,
            # This client drops ids.
            "calls": [[None, c.function.name, c.function.arguments] for c in made.message.tool_calls or []],
            "stop": made.done_reason,
            "usage": [made.prompt_eval_count, made.eval_count, None],
        }

    def answered(self, messages, made):
        calls = made.message.tool_calls
        results = [{"role": "tool", "tool_name": c.function.name, "content": "an apple"} for c in calls]
        return messages + [made.message] + results


def main():
    kinds = {"chat": Chat, "responses": Responses, "anthropic": Anthropic, "gemini": Gemini, "ollama": Ollama}
    name, url, key = sys.argv[1:]
    kind = kinds[name]
    client = kind(url, key)
    out = {}
    for way in ["whole", "stream"]:
        ask = getattr(client, way)
        begun = client.begin("use tools")
        called = ask(begun)
        out[way] = {
            "talk": client.read(ask(client.begin("talk"))),
            "tools": client.read(called),
            "results": client.read(ask(client.answered(begun, called)))["text"],
            "cut": client.read(ask(client.begin("cut")))["stop"],
            "refused": client.read(ask(client.begin("refuse")))["stop"],
            "faults": {words: attempt(lambda: ask(client.begin(words))) for words in FAULTS},
        }
    out["stream"]["breaks"] = {
        words: attempt(lambda: client.stream(client.begin(words))) for words in ["error", "drop"]
    }
    out["wrong key"] = attempt(lambda: kind(url, "wrong").whole(client.begin("talk")))
    print(json.dumps(out))


main()
