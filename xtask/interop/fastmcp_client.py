"""A client that knows nothing of ACP, on fastmcp: lists tools, calls one, reads an error."""

import sys

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def run(transport, address):
    target = StdioTransport(command=address, args=[]) if transport == "stdio" else address
    async with Client(target) as client:
        tools = [tool.name for tool in await client.list_tools()]
        assert "rows" in tools and "autocontext" in tools, tools
        print(f"tools: {len(tools)} are listed", flush=True)
        answer = await client.call_tool("run_sql", {"query": "SELECT 1"})
        assert "words" in answer.content[0].text, answer
        print("call: a call without any setting is answered", flush=True)
        answer = await client.call_tool("rows", {"resource_id": "acc_1", "n": 3}, raise_on_error=False)
        assert answer.is_error and "credentials" in answer.content[0].text, answer
        print("error: a call without credentials is an error that says so", flush=True)


anyio.run(run, *sys.argv[1:3])
