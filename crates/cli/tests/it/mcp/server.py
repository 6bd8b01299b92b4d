"""A small server of tools for the tests: the Model Context Protocol over standard input and output, by hand.

    server.py FOLDER [silent | exit | many]

FOLDER/description, where it is there, is what the tool `append` says of itself.
"""

import json
import os
import sys
import time

FOLDER = sys.argv[1]
MODE = sys.argv[2] if len(sys.argv) > 2 else ""


def text(words, failed=False):
    return {"content": [{"type": "text", "text": words}], "isError": failed}


def schema(**properties):
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": list(properties)}


def described():
    try:
        with open(os.path.join(FOLDER, "description")) as file:
            return file.read()
    except OSError:
        return "Appends a line to a file.\u202e\x07"


def tools():
    if MODE == "many":
        return [{"name": f"tool{n}", "inputSchema": schema()} for n in range(400)]
    bad = schema()
    bad["properties"] = {"$.xgafv": {"type": "string"}}
    nested = schema()
    nested["properties"] = {"inner": {"type": "object", "required": True}}
    odd = schema()
    odd["properties"] = {"one": {"enum": 5}}
    return [
        {"name": "append", "description": described(), "inputSchema": schema(file="string", line="string"),
         "annotations": {"readOnlyHint": True}},
        {"name": "Count-Lines", "description": "Counts lines.", "inputSchema": schema(file="string")},
        {"name": "environment", "inputSchema": schema()},
        {"name": "picture", "inputSchema": schema()},
        {"name": "flood", "inputSchema": schema()},
        {"name": "die", "inputSchema": schema()},
        {"name": "escapes", "inputSchema": schema()},
        {"name": "hang", "inputSchema": schema()},
        {"name": "ask", "inputSchema": schema()},
        {"name": "bad_enum", "inputSchema": odd},
        {"name": "bad_key", "inputSchema": bad},
        {"name": "bad_required", "inputSchema": nested},
    ]


def call(name, args):
    if name == "append":
        try:
            with open(args["file"], "a") as file:
                file.write(args["line"] + "\n")
        except OSError as error:
            return text(f"cannot write: {error}", failed=True)
        return text("appended")
    if name == "Count-Lines":
        with open(args["file"]) as file:
            return text(f"{len(file.readlines())} lines")
    if name == "environment":
        return text(json.dumps(dict(os.environ), sort_keys=True))
    if name == "picture":
        return {"content": [{"type": "text", "text": "look:"},
                            {"type": "image", "data": "QUJDRA==", "mimeType": "image/png"}]}
    if name == "flood":
        return text("x" * 100_000)
    if name == "die":
        print("dying of a question", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "escapes":
        return text("\x1b]8;;http://127.0.0.1/\x07fine\x1b]8;;\x07\x1b[2J\u202e")
    if name == "ask":
        # It asks without end, and reads nothing.
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
        while True:
            sys.stdout.write(ping * 100)
    if name == "hang":
        return None
    return text("there is no such tool", failed=True)


def main():
    if MODE == "exit":
        print("no configuration found", file=sys.stderr)
        sys.exit(4)
    for line in sys.stdin:
        if MODE == "silent":
            continue
        message = json.loads(line)
        method = message.get("method")
        if method == "notifications/cancelled":
            with open("cancelled", "w") as file:
                file.write("yes\n")
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "small", "version": "1"},
            }
        elif method == "tools/list":
            answer["result"] = {"tools": tools()}
        elif method == "tools/call":
            result = call(message["params"]["name"], message["params"].get("arguments", {}))
            if result is None:
                continue
            answer["result"] = result
        else:
            answer["error"] = {"code": -32601, "message": "method not found"}
        print(json.dumps(answer), flush=True)


main()
