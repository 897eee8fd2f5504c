"""A host on the Python SDK 2.x (`mcp`).

Two things of ACP have no place in the SDK's own API, and both are reached without its private names:

- Its session answers every server request it has no model for with "Method not found". Requests come to it through a
  dispatcher that may be given, so this one answers `acp/read_table` before the session sees it.
- `ClientSession.initialize` always sends `experimental: None`. Its parts are public: the request is sent by hand and its
  result adopted.
"""

import os
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import TypeAdapter

import host

REVISION = "2025-11-25"
OBJECT = TypeAdapter(dict[str, Any])


class Dispatcher(JSONRPCDispatcher):
    """Serves `acp/read_table`; everything else is the session's."""

    read_table = None

    async def run(self, on_request, *rest, **named):
        async def first_ours(context, method, params):
            if method != "acp/read_table":
                return await on_request(context, method, params)
            try:
                return self.read_table(params)
            except host.HostError as error:
                raise MCPError(error.code, error.message) from error

        await super().run(first_ours, *rest, **named)


class Client:
    def __init__(self, session, capabilities):
        self.session, self.capabilities = session, capabilities

    async def request(self, method, params):
        try:
            return await self.session.send_request(types.Request[dict, str](method=method, params=params), OBJECT)
        except MCPError as error:
            raise host.HostError(error.code, error.message, error.data) from error

    async def call(self, name, arguments, meta=None, progress=None):
        result = await self.session.call_tool(name, arguments, progress_callback=progress, meta=meta)
        return result.model_dump(by_alias=True, mode="json", exclude_unset=True)

    async def call_and_cancel(self, name, arguments):
        # The SDK tells the server when a call is abandoned.
        with anyio.CancelScope() as scope:

            async def stop(*_):
                scope.cancel()

            await self.session.call_tool(name, arguments, progress_callback=stop)
            raise AssertionError("the call was not cancelled")


@asynccontextmanager
async def connect(transport, address, capability, read_table):
    if transport == "stdio":
        streams = stdio_client(StdioServerParameters(command=address, env=dict(os.environ)))
    else:
        streams = streamable_http_client(address)
    async with streams as (read, write):
        dispatcher = Dispatcher(read, write)
        dispatcher.read_table = read_table
        async with ClientSession(dispatcher=dispatcher) as session:
            params = types.InitializeRequestParams(
                protocol_version=REVISION,
                capabilities=types.ClientCapabilities(experimental={"acp": capability}),
                client_info=types.Implementation(name="interop", version="1.0.0"),
            )
            result = await session.send_request(types.InitializeRequest(params=params), types.InitializeResult)
            session.adopt(result)
            await session.send_notification(types.InitializedNotification())
            yield Client(session, result.capabilities.model_dump(by_alias=True, mode="json"))


if __name__ == "__main__":
    host.run(connect)
