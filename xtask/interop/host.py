"""What an ACP host does with `acp-toy`, whatever client library it stands on.

A library comes as one function, `connect` (see python_1.py and python_2.py). Each line that is printed was checked.
"""

import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio

CAPABILITY = {"version": "1.0", "stores_system_data": True, "host_tables": True}
CREDENTIALS = {"type": "api_key", "api_key": "KEY-A-interop"}
# Whole numbers keep their digits in Python, fractions only in the text.
BIG = 12345678901234567890123456789012345678
DIGITS = '[{"big":12345678901234567890123456789012345678,"small":0.10000000000000000555}]'
TABLE = {
    "format": "inline",
    "row_count": 2,
    "headers": [{"name": "date", "type": "date"}, {"name": "sessions", "type": "integer"}],
    "table": [{"date": "2026-01-01", "sessions": 10}, {"date": "2026-01-02", "sessions": None}],
}


class HostError(Exception):
    """A JSON-RPC error, in either direction."""

    def __init__(self, code, message, data=None):
        super().__init__(f"{code} {message}")
        self.code, self.message, self.data = code, message, data


class Host:
    """A connected client with what it was asked."""

    def __init__(self):
        self.asked = []
        self.client = None

    def read_table(self, params):
        """Answers `acp/read_table`."""
        self.asked.append((params["ref"], params.get("call_id")))
        if params["ref"] == "ds_1":
            return TABLE
        raise HostError(-32021, f"There is no table {params['ref']} in this conversation.")

    async def call(self, name, arguments, acp=None, progress=None):
        """Calls a tool and takes its answer apart: what the model reads, what the host reads."""
        result = await self.client.call(name, arguments, {"acp": acp} if acp is not None else None, progress)
        acp = result["_meta"]["acp"]
        texts = [block["text"] for block in result["content"]]
        return {
            "result": result,
            "texts": texts,
            "model": json.loads(texts[0]),
            "info": acp["system_info"],
            "data": acp.get("system_data"),
            "error": acp.get("error"),
        }


def run(connect):
    """Runs the checks. `connect(transport, address, capability, read_table)` is an async context manager whose client has
    `capabilities`, `request`, `call` and `call_and_cancel`."""
    anyio.run(_run, connect, *sys.argv[1:3])


async def _run(connect, transport, address):
    host = Host()
    async with connect(transport, address, CAPABILITY, host.read_table) as client:
        host.client = client
        checks = [capability, configure, extraction, digits, host_tables, host_table_errors, progress, cancellation]
        for check in checks:
            try:
                print(f"{check.__name__}: {await check(host)}", flush=True)
            except Exception:
                print(f"{check.__name__}: failed", file=sys.stderr, flush=True)
                raise
    print("close: the session ended", flush=True)


def equal(left, right):
    assert left == right, f"{left!r} is not {right!r}"


async def capability(host):
    acp = host.client.capabilities["experimental"]["acp"]
    equal(acp["version"], "1.0")
    assert len(acp["credentials_schema"]["oneOf"]) > 1
    return f"experimental.acp {acp['version']} with {len(acp['credentials_schema']['oneOf'])} forms of credentials"


async def configure(host):
    done = await host.client.request("acp/configure", {"credentials": CREDENTIALS, "row_limit": 2})
    equal((done["ok"], done["effective"]["row_limit"]), (True, 2))
    assert CREDENTIALS["api_key"] not in json.dumps(done), "the answer repeats a credential"
    try:
        await host.client.request("acp/configure", {"row_limit": 5001})
    except HostError as error:
        equal((error.code, error.data["name"]), (-32016, "ACP_INVALID_LIMIT"))
    else:
        raise AssertionError("a limit that is too high was taken")
    return "acp/configure answers what is in force, and refuses a limit by code and name"


async def extraction(host):
    configured = await host.call("rows", {"resource_id": "acc_1", "n": 5})
    equal(len(configured["model"]["rows"]), 2)
    answer = await host.call("rows", {"resource_id": "acc_1", "n": 5}, {"row_limit": 3})
    rows = [{"i": i, "name": f"r{i}"} for i in range(5)]
    model, info, data = answer["model"], answer["info"], answer["data"]
    assert not answer["result"].get("isError")
    equal(model["rows"], rows[:3])
    equal((model["total_rows"], model["returned_rows"], model["truncated"]), (5, 3, True))
    equal((info["tool"], info["row_limit"], info["arguments"]["n"]), ("rows", 3, 5))
    equal([header["type"] for header in data["headers"]], ["integer", "string"])
    equal(data["table"], rows)
    assert "r4" not in "".join(answer["texts"]), "the model sees a row above the limit"
    return "three rows for the model and five typed ones for the host, by _meta.acp of the call"


async def digits(host):
    inline = (await host.call("raw", {"rows_json": DIGITS}))["data"]
    equal([header["type"] for header in inline["headers"]], ["integer", "number"])
    equal(inline["table"][0]["big"], BIG)
    file = (await host.call("raw", {"rows_json": DIGITS}, {"inline_max_bytes": 0}))["data"]
    path = Path(url2pathname(urlsplit(file["table_uri"]).path))
    equal("".join(path.read_text().split()), DIGITS)
    path.unlink()
    return "an inline table keeps whole numbers of 38 digits, a file every digit"


async def host_tables(host):
    answer = await host.call("copy_table", {"table_ref": "ds_1"}, {"call_id": "call-1"})
    equal(host.asked, [("ds_1", "call-1")])
    equal(answer["info"]["arguments"], {"table_ref": "ds_1"})
    equal(answer["data"]["headers"], TABLE["headers"])
    equal(answer["data"]["table"], TABLE["table"])
    host.asked.clear()
    answers = []

    async def call(number):
        answers.append(await host.call("copy_table", {"table_ref": "ds_1"}, {"call_id": f"c{number}"}))

    async with anyio.create_task_group() as calls:
        for number in range(3):
            calls.start_soon(call, number)
    equal([answer["data"]["row_count"] for answer in answers], [2, 2, 2])
    equal(sorted(host.asked), [("ds_1", "c0"), ("ds_1", "c1"), ("ds_1", "c2")])
    host.asked.clear()
    return "acp/read_table is served, one call and three at once"


async def host_table_errors(host):
    answer = await host.call("copy_table", {"table_ref": "ds_2"})
    equal(answer["result"]["isError"], True)
    equal((answer["error"]["code"], answer["error"]["name"]), (-32021, "ACP_TABLE_NOT_FOUND"))
    assert "There is no table ds_2 in this conversation." in answer["error"]["message"]
    equal(len(host.asked), 1)
    return "the error of the host reaches the model as -32021"


async def progress(host):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    answer = await host.call("slow", {"seconds": 1}, None, note)
    equal(answer["model"]["steps"], 50)
    assert seen and all(before[0] < after[0] for before, after in zip(seen, seen[1:])), seen
    assert all(total == 50 and message.startswith("Step ") for _, total, message in seen), seen
    return "progress grows, with its total and a message"


async def cancellation(host):
    begun = time.monotonic()
    await host.client.call_and_cancel("slow", {"seconds": 60})
    assert time.monotonic() - begun < 30, "the call went on"
    equal((await host.call("peek", {"tag": "alive"}))["model"]["tag"], "alive")
    return "a cancelled call ends, and the session goes on"
