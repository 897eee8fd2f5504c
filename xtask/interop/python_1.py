"""A host on the Python SDK 1.x (`mcp`), which many hosts still stand on.

Its session knows a closed list of server requests and answers any other with "Invalid request parameters" before a handler
could see it. So a relay stands between the transport and the session, answers `acp/read_table` and passes on the rest. The
same relay sees the ids of requests, which the SDK keeps to itself and which a cancellation has to name. The capability of
the client goes into an `initialize` that is sent by hand: the session's own always sends `experimental: None`.
"""

import os
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import ConfigDict

import host

REVISION = "2025-11-25"


class Anything(types.Result):
    model_config = ConfigDict(extra="allow")


class Relay:
    def __init__(self, read_table):
        self.read_table = read_table
        self.last_request = None

    async def inwards(self, transport, session, answers):
        async with session:
            async for message in transport:
                request = None if isinstance(message, Exception) else message.message.root
                if isinstance(request, types.JSONRPCRequest) and request.method == "acp/read_table":
                    await answers.send(self.answer(request))
                else:
                    await session.send(message)

    async def outwards(self, session, transport):
        async with transport:
            async for message in session:
                if isinstance(message.message.root, types.JSONRPCRequest):
                    self.last_request = message.message.root.id
                await transport.send(message)

    def answer(self, request):
        named = {"jsonrpc": "2.0", "id": request.id}
        try:
            answer = types.JSONRPCResponse(**named, result=self.read_table(request.params))
        except host.HostError as error:
            answer = types.JSONRPCError(**named, error=types.ErrorData(code=error.code, message=error.message))
        return SessionMessage(message=types.JSONRPCMessage(answer))


class Client:
    def __init__(self, session, relay, capabilities):
        self.session, self.relay, self.capabilities = session, relay, capabilities

    async def request(self, method, params):
        request = types.Request[dict[str, Any], str](method=method, params=params)
        try:
            result = await self.session.send_request(request, Anything)
        except McpError as error:
            raise host.HostError(error.error.code, error.error.message, error.error.data) from error
        return result.model_dump(by_alias=True, mode="json")

    async def call(self, name, arguments, meta=None, progress=None):
        result = await self.session.call_tool(name, arguments, progress_callback=progress, meta=meta)
        return result.model_dump(by_alias=True, mode="json")

    async def call_and_cancel(self, name, arguments):
        with anyio.CancelScope() as scope:

            async def stop(*_):
                scope.cancel()

            await self.session.call_tool(name, arguments, progress_callback=stop)
            raise AssertionError("the call was not cancelled")
        params = types.CancelledNotificationParams(requestId=self.relay.last_request, reason="enough")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))


@asynccontextmanager
async def connect(transport, address, capability, read_table):
    if transport == "stdio":
        streams = stdio_client(StdioServerParameters(command=address, env=dict(os.environ)))
    else:
        streams = streamable_http_client(address)
    async with streams as (read, write, *_), anyio.create_task_group() as tasks:
        to_session, session_read = anyio.create_memory_object_stream(0)
        session_write, from_session = anyio.create_memory_object_stream(0)
        relay = Relay(read_table)
        tasks.start_soon(relay.inwards, read, to_session, write.clone())
        tasks.start_soon(relay.outwards, from_session, write)
        async with ClientSession(session_read, session_write) as session:
            params = types.InitializeRequestParams(
                protocolVersion=REVISION,
                capabilities=types.ClientCapabilities(experimental={"acp": capability}),
                clientInfo=types.Implementation(name="interop", version="1.0.0"),
            )
            request = types.ClientRequest(types.InitializeRequest(params=params))
            result = await session.send_request(request, types.InitializeResult)
            await session.send_notification(types.ClientNotification(types.InitializedNotification()))
            yield Client(session, relay, result.capabilities.model_dump(by_alias=True, mode="json"))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    host.run(connect)
