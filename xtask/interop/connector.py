"""A connector of ours over stdio, as a host starts it, and how its values are compared with those of others."""

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Connector:
    """One of our connectors. Numbers with a fraction are read as `fractions`, which keeps as many digits as it can."""

    def __init__(self, program, url, credentials, fractions=float, **settings):
        variables = {"ACP_GOOGLE_SANDBOX": url, "ACP_TMP_DIR": os.environ["ACP_TMP_DIR"]}
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True)
        self.meta = {"acp": {"credentials": credentials} | settings}
        self.fractions = fractions
        self.tables = {}
        self.sent = 0
        acp = {"version": "1.0", "stores_system_data": True, "host_tables": True}
        self.request("initialize", {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"acp": acp}},
            "clientInfo": {"name": "interop", "version": "1"},
        })
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.sent += 1
        self.send({"id": self.sent, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line, parse_float=self.fractions)
            if message.get("method") == "acp/read_table":
                self.send({"id": message["id"], "result": self.tables[message["params"]["ref"]]})
            elif message.get("id") == self.sent and "method" not in message:
                return message["result"]
        raise SystemExit(f"the connector ended before it answered {method}")

    def answer(self, tool, arguments):
        """The answer of a tool, which may be an error."""
        return self.request("tools/call", {"name": tool, "arguments": arguments, "_meta": self.meta})

    def call(self, tool, **arguments):
        """What the model reads, and the table with all rows."""
        result = self.answer(tool, arguments)
        text = result["content"][0]["text"]
        if result.get("isError"):
            raise SystemExit(f"{tool} {arguments}: {text}")
        data = result["_meta"]["acp"].get("system_data") or {}
        rows = data.get("table")
        if "table_uri" in data:
            rows = json.loads(Path(unquote(urlsplit(data["table_uri"]).path)).read_text(), parse_float=self.fractions)
        return json.loads(text), rows

    def blocks(self, resource, *names):
        """Asks for these blocks, or for every one there is."""
        if not names:
            tools = self.request("tools/list", {})["tools"]
            schema = next(tool for tool in tools if tool["name"] == "autocontext")["inputSchema"]
            names = schema["properties"]["request_data"]["items"]["enum"]
        blocks, _ = self.call("autocontext", resource_id=resource, request_data=list(names))
        return {block["id"]: block["data"] for block in blocks}


def equal(what, ours, theirs):
    """That two tables, by key, or two values are equal to the last digit."""
    if isinstance(theirs, dict):
        for key in [*theirs, *ours]:
            if key not in ours or key not in theirs or ours[key] != theirs[key]:
                raise SystemExit(f"{what}: {key}: ours {ours.get(key)}, Google's client {theirs.get(key)}")
    elif ours != theirs:
        raise SystemExit(f"{what}: ours {ours}, Google's client {theirs}")
