"""A session with the bridge on the Python SDK, 1.x or 2.x: extractions of three sources, then SQL over what was stored.

The server is started from a client's settings. Each line that is printed was checked.
"""

import json
import re
import sys
from pathlib import Path

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client


async def run(snippet, plan):
    settings = json.loads(Path(snippet).read_text())
    # VS Code has a name of its own for it.
    servers = settings.get("mcpServers") or settings["servers"]
    [(name, server)] = servers.items()
    plan = json.loads(Path(plan).read_text())
    seen = []
    started = StdioServerParameters(command=server["command"], args=server["args"])
    async with stdio_client(started) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def ask(tool, arguments):
            result = (await session.call_tool(tool, arguments)).model_dump(by_alias=True, mode="json")
            texts = [block["text"] for block in result["content"] if block["type"] == "text"]
            seen.extend(texts)
            return texts, bool(result.get("isError"))

        async def call(tool, arguments):
            texts, failed = await ask(tool, arguments)
            assert not failed, texts
            return json.loads(texts[0]), "\n".join(texts[1:])

        tools = [tool.name for tool in (await session.list_tools()).tools]
        # Cursor takes no more of both names together.
        assert all(len(name) + len(tool) <= 60 for tool in tools), tools
        sources, _ = await call("acp_sources", {})
        states = {source["id"]: source["state"] for source in sources["sources"]}
        assert set(states.values()) == {"ok"}, states
        print(f"sources: {', '.join(states)} with {len(tools)} tools, names within 60 characters", flush=True)
        sums = []
        for step in plan["steps"]:
            model, note = await call(step["tool"], step["arguments"])
            dataset = re.search(r'saved as dataset "([a-z0-9_]+)"', note).group(1)
            rows, _ = await call("acp_query", {"sql": f"SELECT SUM({step['column']}) AS s FROM {dataset}"})
            total = rows["rows"][0]["s"]
            expected = model["totals"][step["metric"]] if "metric" in step else sums[step["same_as"]]
            assert total == expected, f"{step['tool']}: acp_query adds up {total}, Google says {expected}"
            lines = (Path(plan["data"]) / f"{dataset}.csv").read_text().splitlines()
            assert len(lines) == model["total_rows"] + 1, "the whole table is stored"
            sums.append(total)
            print(f"{step['tool']}: {model['returned_rows']} of {model['total_rows']} rows seen, {total} in all", flush=True)
        listed, _ = await call("acp_datasets", {})
        assert len(listed["datasets"]) >= 2 * len(plan["steps"]), listed["notice"]
        texts, failed = await ask("acp_query", {"sql": f"DELETE FROM {dataset}"})
        assert failed and json.loads(texts[0])["error"]["name"] == "ACP_READ_ONLY_VIOLATION", texts
    assert not any(plan["secret"] in text for text in seen), "a piece of the key was seen"
    print("acp_query: refuses to delete; no text held a piece of the key", flush=True)


if __name__ == "__main__":
    anyio.run(run, *sys.argv[1:3])
