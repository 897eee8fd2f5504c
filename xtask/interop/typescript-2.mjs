// A host on @modelcontextprotocol/client 2.x.

import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { runHost } from './host.mjs';

// The library takes any validator; these messages are checked where they are used.
const anything = { '~standard': { version: 1, vendor: 'interop', validate: (value) => ({ value }) } };

async function connect({ transport, address }, capability, readTable) {
  const client = new Client(
    { name: 'interop', version: '1.0.0' },
    { capabilities: { experimental: { acp: capability } } },
  );
  client.setRequestHandler('acp/read_table', { params: anything, result: anything }, (params) => readTable(params));
  await client.connect(
    transport === 'stdio'
      ? new StdioClientTransport({ command: address, env: process.env })
      : new StreamableHTTPClientTransport(new URL(address)),
  );
  return {
    capabilities: client.getServerCapabilities(),
    request: (method, params) => client.request({ method, params }, anything),
    call: (params, options) => client.callTool(params, options),
    close: async () => {
      await client.transport.terminateSession?.();
      await client.close();
    },
  };
}

await runHost({ connect, fail: (code, message) => new ProtocolError(code, message) });
